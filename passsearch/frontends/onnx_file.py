"""ONNX files: what inputs they declare, and what of it the user has to settle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from passsearch.core import DeclaredInput, Dimension, bind
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, keep_bytes
from passsearch.frontends.request import Asked

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class OnnxFile:
    """What of an ONNX file matters before it is imported.

    Attributes:
        inputs: Declared inputs, without those that have an initializer.
        external: Files beside it that hold weights, sorted.
    """

    inputs: tuple[DeclaredInput, ...]
    external: tuple[Path, ...]


def from_path(path: Path, asked: Asked, *, name: str | None = None) -> ModelFile:
    """A file with its open inputs bound.

    Raises:
        UserError: As ``read``, or an input is unknown, does not fit or stays open.
    """
    found = read(path)
    bound = bind(found.inputs, given=asked.inputs, batch=asked.batch)
    return ModelFile(path, "onnx", name or path.stem, asked.source, digest_files((path, *found.external)), bound)


def from_proto(model: onnx.ModelProto, asked: Asked) -> ModelFile:
    """A network in memory, kept by its content.

    Raises:
        UserError: As ``from_path``; or it is over 2 GiB, or its weights are in files whose place it does not tell.
        EnvironmentFault: The folder cannot be written.
    """
    name = model.graph.name or "network"
    return from_path(keep_bytes(asked.folder, _serialize(model), name=name, suffix=".onnx"), asked, name=name)


def read(path: Path) -> OnnxFile:
    """Read the declarations; weights kept in other files are not loaded.

    Raises:
        UserError: It is not ONNX, holds no operator, or a file with its weights is missing.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load(str(path), load_external_data=False)
    except (DecodeError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"Cannot read `{path}` as ONNX ({reason}); export the network again.") from error
    if not model.graph.node:
        raise UserError(f"Cannot read `{path}` as ONNX (no operator in it); export the network again.")
    external = tuple(sorted({path.parent / name for name in _external(model)}))
    for file in external:
        if not file.is_file():
            raise UserError(f"`{path}` keeps weights in `{file.name}`, which is missing; put it beside the model.")
    return OnnxFile(_declared(model), external)


def _serialize(model: onnx.ModelProto) -> bytes:
    """The bytes of an in-memory network, the same for equal networks."""
    from google.protobuf.message import EncodeError

    if not model.graph.node:
        raise UserError("The ONNX model holds no operator; give one that computes something.")
    if next(_external(model), None) is not None:
        raise UserError("The ONNX model keeps its weights in other files; give the path of its file instead.")
    try:
        return bytes(model.SerializeToString(deterministic=True))
    except (EncodeError, ValueError) as error:
        raise UserError("An ONNX model over 2 GiB needs external data; save it so and give the path.") from error


def _external(model: onnx.ModelProto) -> Iterator[str]:
    from onnx import TensorProto

    for tensor in model.graph.initializer:
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from (entry.value for entry in tensor.external_data if entry.key == "location")


def _declared(model: onnx.ModelProto) -> tuple[DeclaredInput, ...]:
    filled = {tensor.name for tensor in model.graph.initializer}
    return tuple(_input(value) for value in model.graph.input if value.name not in filled)


def _input(value: onnx.ValueInfoProto) -> DeclaredInput:
    from onnx import TensorProto

    if not value.type.HasField("tensor_type"):
        raise UserError(f"Input `{value.name}` is not a tensor; export the network with tensor inputs only.")
    tensor = value.type.tensor_type
    kind = TensorProto.DataType.Name(tensor.elem_type).lower()
    dtype = {"float": "float32", "double": "float64"}.get(kind, kind)
    shape = tuple(map(_dimension, tensor.shape.dim)) if tensor.HasField("shape") else None
    return DeclaredInput(value.name, shape, dtype)


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> Dimension:
    # Some exporters write 0 or -1 where they mean "open".
    if dim.HasField("dim_value") and dim.dim_value > 0:
        return int(dim.dim_value)
    return dim.dim_param or None
