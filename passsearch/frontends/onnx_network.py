"""A network as an ONNX file with fixed shapes, which every inference engine reads alike."""

import hashlib
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from passsearch.core import TensorType, resolve_inputs, strict_limit
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, cache_file_name, digest_files, save_file
from passsearch.frontends.resolve import find_front_end, resolve, source_name

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class OnnxNetwork:
    """An ONNX file that leaves no size open.

    Attributes:
        file: The file.
        types: Types of all inputs, in order.
        limit: Largest deviation of outputs that rounding can explain.
    """

    file: ModelFile
    types: Mapping[str, TensorType]
    limit: float


def resolve_onnx(
    model: object,
    *,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    folder: Path,
    trust: bool = False,
) -> OnnxNetwork:
    """Return a network as an ONNX file with fixed shapes.

    Args:
        model: An ONNX file or model, or ``zoo:NAME[@batch]``.
        inputs: Types by input name, where the network leaves them open.
        batch: Size for open first dimensions.
        folder: Folder for files that are made.
        trust: True to run code that the network's file contains.

    Raises:
        UserError: The network is in another format, is over 2 GiB and leaves sizes open, or ``resolve`` refuses it.
    """
    if not find_front_end(model).startswith("onnx_file:"):
        raise UserError(f"Engines read ONNX, and `{source_name(model)}` is no ONNX file; export the network as ONNX.")
    return fixed_onnx(resolve(model, inputs=inputs, batch=batch, folder=folder, trust=trust), folder=folder)


def fixed_onnx(file: ModelFile, *, folder: Path) -> OnnxNetwork:
    """Return an ONNX file, or a copy of it with fixed shapes if it leaves sizes open.

    Args:
        file: The file, with the types of inputs that it leaves open.
        folder: Folder for the copy.

    Raises:
        UserError: The copy would be over 2 GiB.
    """
    from passsearch.frontends import onnx_file

    content = onnx_file.read(file.path)
    declared, limit = content.inputs, strict_limit(content.dtypes, quantizes=content.quantizes)
    types = resolve_inputs(declared, types=file.inputs, batch=None)
    if not any(entry.is_open() for entry in declared):
        return OnnxNetwork(file, types, limit)
    path, original = _with_fixed_inputs(file, types, folder=folder), replace(file, inputs=types)
    fixed = ModelFile(path, "onnx", file.name, file.source, digest_files([path]), original=original)
    return OnnxNetwork(fixed, types, limit)


def _with_fixed_inputs(file: ModelFile, types: Mapping[str, TensorType], *, folder: Path) -> Path:
    """Write a copy of an ONNX file whose inputs have these types."""
    import onnx
    from google.protobuf.message import EncodeError

    _log.info("Writing a copy of `%s` with fixed shapes.", file.path)
    model = onnx.load(str(file.path))
    for value in model.graph.input:
        if value.name in types:
            del value.type.tensor_type.shape.dim[:]
            for size in types[value.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = size or 1
    # Shapes between operators may name the dimensions that are fixed now.
    del model.graph.value_info[:]
    shapes = "_".join("x".join(map(str, kind.shape)) for kind in types.values())
    # The name is cut, so the digest is of the types as well.
    digest = hashlib.sha256(f"{file.sha256} {sorted(map(str, types.items()))}".encode()).hexdigest()
    name = cache_file_name(f"{file.name}-{shapes}"[:80], digest, suffix=".onnx")
    try:
        return save_file(folder, name, write=lambda path: onnx.save(model, str(path)))
    except (EncodeError, ValueError) as error:
        if isinstance(error, ValueError) and not re.search("2 ?GB", str(error)):
            raise
        # The copy holds all weights, and protobuf writes no file over 2 GiB. Those of the original are in other files.
        raise UserError(
            f"`{file.source}` leaves sizes open, and its copy with fixed ones is larger than an ONNX file can be "
            "(2 GiB); export the network with fixed sizes."
        ) from error
