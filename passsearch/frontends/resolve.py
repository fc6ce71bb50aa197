"""From whatever a user calls a network to a file that a worker can load."""

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from passsearch.core import TensorType, bind, format_input
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, keep_bytes, keep_file, kept_name

if TYPE_CHECKING:
    from onnx import ModelProto

ACCEPTED = (
    "a path (.onnx, TorchScript .pt, a compiler module's .json with .params beside it), zoo:NAME[@batch], "
    "an onnx.ModelProto, a torch.nn.Module with example_inputs, a tvm.IRModule or a pair (IRModule, params)"
)
ZOO = "zoo:"
WAY_OUT = "export it as ONNX and give that file. Accepted: .onnx, TorchScript .pt, a compiler module's .json."
UNREAD = {
    "-symbol.json": "MXNet symbol",
    ".pt2": "torch.export archive",
    ".pth": "PyTorch checkpoint",
    ".tflite": "TFLite model",
    ".pb": "TensorFlow graph",
    ".h5": "Keras model",
    ".keras": "Keras model",
}
"""Formats of other frameworks, by how the file name ends; each of them exports ONNX."""


@dataclass(frozen=True)
class Asked:
    """What the user said beside the network itself.

    Attributes:
        source: What was typed, or the type of the object.
        inputs: Types by input name.
        batch: Size of the first dimension.
        folder: Where files made from objects are kept.
    """

    source: str
    inputs: Mapping[str, TensorType]
    batch: int | None
    folder: Path


def resolve(
    model: object,
    *,
    example_inputs: object = None,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    folder: Path,
) -> ModelFile:
    """Make or find the file of a network and settle its inputs.

    Args:
        model: A path, ``zoo:NAME[@batch]``, or an object of a framework; ``ACCEPTED`` lists them.
        example_inputs: For a torch module: a tensor, a tuple of tensors, or a mapping by argument name.
        inputs: Types by input name, where the network leaves them open.
        batch: Size for open first dimensions.
        folder: Where files made from objects are kept, named by content.

    Raises:
        UserError: The network cannot be read, is of no known kind, or its inputs do not fit or stay open.
        EnvironmentFault: ``folder`` cannot be written.
    """
    if batch is not None and batch < 1:
        raise UserError(f"Batch size must be 1 or more, got {batch}; give for example batch=1")
    typed = isinstance(model, str | Path)
    asked = Asked(str(model) if typed else _type_name(model), inputs or {}, batch, folder)
    if example_inputs is not None and not _is_torch_module(model):
        raise UserError(f"Example inputs go with a torch.nn.Module only; leave them out with `{asked.source}`.")
    if isinstance(model, str) and model.startswith(ZOO):
        return _from_zoo(model.removeprefix(ZOO), asked)
    if isinstance(model, str | Path):
        return _from_path(Path(model).expanduser().absolute(), asked)
    return _from_object(model, example_inputs, asked=asked)


def _from_object(model: Any, example_inputs: object, *, asked: Asked) -> ModelFile:
    if _has_base(model, "onnx.", name="ModelProto"):
        return _from_model_proto(model, asked)
    if _is_torch_module(model):
        return _from_torch(model, example_inputs, asked=asked)
    module, params = model if _is_pair(model) else (model, None)
    if _has_base(module, "tvm."):
        from passsearch.frontends.ir_module import save

        return _from_ir(save(module, params, folder=asked.folder), asked, name="module", toolchain="this")
    raise UserError(f"`{asked.source}` is no network; accepted: {ACCEPTED}.")


def _from_zoo(text: str, asked: Asked) -> ModelFile:
    from passsearch.frontends.zoo import build

    name, at, size = text.partition("@")
    if at and not (size.isascii() and size.isdigit()):
        raise UserError(f"A built-in network reads zoo:NAME[@batch]; got `{asked.source}`. For example: zoo:{name}@1")
    batch = int(size) if at else asked.batch or 1
    if asked.batch not in (None, batch):
        raise UserError(f"`{asked.source}` has batch {batch}, not {asked.batch}; give one of the two.")
    made = kept_name(f"{name}-b{batch}", _zoo_edition(), suffix=".onnx")
    path = keep_file(
        asked.folder, made, write=lambda file: file.write_bytes(build(name, batch=batch).SerializeToString())
    )
    return _from_onnx(path, asked, name=name)


def _zoo_edition() -> str:
    """Digest of the builders: another edition of a network is another file."""
    return digest_files(sorted((Path(__file__).parent / "zoo").glob("*.py")))


def _from_path(path: Path, asked: Asked) -> ModelFile:
    _check_kind(path, asked.source)
    if path.stat().st_size == 0:
        raise UserError(f"`{asked.source}` is empty; export the network again.")
    if path.suffix == ".onnx":
        return _from_onnx(path, asked, name=path.stem)
    if path.suffix == ".pt":
        return _from_torchscript(path, asked)
    return _from_ir(path, asked, name=path.stem)


def _check_kind(path: Path, typed: str) -> None:
    """Refuse what is not there or not readable by its kind."""
    if path.is_dir() and (path / "saved_model.pb").exists():
        raise UserError(f"`{typed}` is a TensorFlow SavedModel, which this version does not read; {WAY_OUT}")
    for ending, kind in UNREAD.items():
        if path.name.endswith(ending):
            raise UserError(f"`{typed}` is a {kind} by its name, which this version does not read; {WAY_OUT}")
    if path.is_dir():
        raise UserError(f"`{typed}` is a folder; {WAY_OUT}")
    if not path.exists():
        hint = f" A built-in network is zoo:{typed}." if path.suffix == "" else ""
        raise UserError(f"No such file: `{typed}`.{hint} Accepted: {ACCEPTED}.")
    if path.suffix not in (".onnx", ".pt", ".json"):
        raise UserError(f"`{typed}` is of no known kind; {WAY_OUT}")


def _from_onnx(path: Path, asked: Asked, *, name: str) -> ModelFile:
    from passsearch.frontends import onnx_file

    found = onnx_file.read(path)
    bound = bind(found.inputs, given=asked.inputs, batch=asked.batch)
    return ModelFile(path, "onnx", name, asked.source, digest_files((path, *found.external)), bound)


def _from_model_proto(model: "ModelProto", asked: Asked) -> ModelFile:
    from passsearch.frontends import onnx_file

    data = onnx_file.serialize(model)
    name = model.graph.name or "network"
    path = keep_bytes(asked.folder, data, name=name, suffix=".onnx")
    return _from_onnx(path, asked, name=name)


def _from_torch(module: object, example_inputs: object, *, asked: Asked) -> ModelFile:
    from passsearch.frontends import torch_module

    made = torch_module.export(module, example_inputs, folder=asked.folder)
    if made.path.suffix == ".onnx":
        return _from_onnx(made.path, asked, name=made.name)
    for given, kind in asked.inputs.items():
        if made.inputs.get(given) != kind:
            names = ", ".join(format_input(each, made.inputs[each]) for each in made.inputs)
            raise UserError(f"`{format_input(given, kind)}` contradicts the example inputs ({names}); leave it out.")
    return _torchscript(made.path, asked, name=made.name, inputs=made.inputs)


def _from_torchscript(path: Path, asked: Asked) -> ModelFile:
    if not _is_torchscript(path):
        raise UserError(f"`{asked.source}` is not TorchScript; save torch.jit.trace(module, inputs), or export ONNX.")
    if not asked.inputs:
        raise UserError("TorchScript does not name its inputs; give each in order as --input name:dtype[shape].")
    return _torchscript(path, asked, name=path.stem, inputs=asked.inputs)


def _torchscript(path: Path, asked: Asked, *, name: str, inputs: Mapping[str, TensorType]) -> ModelFile:
    if asked.batch is not None and all(kind.shape[:1] != (asked.batch,) for kind in inputs.values()):
        shapes = ", ".join(format_input(each, kind) for each, kind in inputs.items())
        raise UserError(f"Batch {asked.batch} does not fit the inputs ({shapes}); leave one of them out.")
    return ModelFile(path, "torchscript", name, asked.source, digest_files((path,)), dict(inputs))


def _is_torchscript(path: Path) -> bool:
    """Whether it is an archive with code; a checkpoint is an archive without."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any("/code/" in name for name in archive.namelist())


def _from_ir(path: Path, asked: Asked, *, name: str, toolchain: str | None = None) -> ModelFile:
    try:
        content = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(
            f"Cannot read `{asked.source}` as a compiler module ({error}); save it with tvm.ir.save_json."
        ) from error
    if not isinstance(content, dict) or "nodes" not in content or not {"root", "root_index"} & set(content):
        raise UserError(f"`{asked.source}` holds no compiler module; save one with tvm.ir.save_json.")
    if asked.inputs or asked.batch is not None:
        raise UserError(f"`{asked.source}` fixes its own inputs; leave the inputs and the batch out.")
    files = [file for file in (path, path.with_suffix(".params")) if file.exists()]
    return ModelFile(path, "ir", name, asked.source, digest_files(files), toolchain=toolchain)


def _is_pair(model: object) -> bool:
    return isinstance(model, tuple) and len(model) == 2


def _is_torch_module(model: object) -> bool:
    return _has_base(model, "torch.", name="Module")


def _has_base(model: object, package: str, *, name: str | None = None) -> bool:
    """Whether a class of the package is among the object's, without importing the package."""
    bases = type(model).__mro__
    return any(base.__module__.startswith(package) and name in (None, base.__name__) for base in bases)


def _type_name(model: object) -> str:
    if isinstance(model, tuple):
        return f"({', '.join(map(_type_name, model))})"
    kind = type(model)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
