"""Choose the front end for a network and return the file that a worker can load."""

import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.core import Calls, TensorType, expand_home, install_command
from passsearch.errors import UserError
from passsearch.frontends.foreign import SAVED_MODEL, require_harmless
from passsearch.frontends.model_file import ModelFile, cache_file_name, digest_files, save_file
from passsearch.frontends.request import EXPORT_ADVICE, PATHS, ModelRequest
from passsearch.frontends.stand_in import refuse_stand_in

ZOO = "zoo:"
OBJECTS = (
    "an onnx.ModelProto, a torch.nn.Module with example_inputs, a torch ExportedProgram, a transformers model or "
    "configuration, a Keras model, a gluon HybridBlock with inputs or example_inputs, an MXNet pair (symbol, params), "
    "a tvm.IRModule or a pair (IRModule, params)"
)
ACCEPTED = f"a path ({PATHS}), zoo:NAME[@batch], {OBJECTS}"

FILE_FRONT_ENDS = {
    "-symbol.json": "mxnet_file:from_path",
    ".json": "ir_module:from_path",
    ".onnx": "onnx_file:from_path",
    ".pt": "torchscript_file:from_path",
    ".pt2": "torch_module:from_archive",
    ".pb": "tensorflow_file:from_path",
    ".tflite": "tensorflow_file:from_path",
    ".keras": "keras_model:from_path",
    ".h5": "keras_model:from_path",
}
"""Front ends of files, by the ending of the file name; the first ending that matches counts."""

FOLDER_FRONT_ENDS = {SAVED_MODEL: "tensorflow_file:from_path", "config.json": "transformers_model:from_folder"}
"""Front ends of folders, by a file in the folder; the first file that exists counts."""

NETWORK_FILES = (".onnx", ".pt", ".pt2", ".pb", ".tflite", ".keras")
"""Endings of files that are most likely networks."""

WEIGHTS_ONLY = (".pth", ".ckpt", ".safetensors", ".params")

OBJECT_FRONT_ENDS = (
    ("onnx.", "ModelProto", "onnx_file:from_proto"),
    # A model of transformers is a torch module too, so its own front end stands before torch's.
    ("transformers.", "PreTrainedModel", "transformers_model:from_model"),
    ("transformers.", "PretrainedConfig", "transformers_model:from_config"),
    ("transformers.", "PreTrainedConfig", "transformers_model:from_config"),
    ("torch.", "ExportedProgram", "torch_module:from_program"),
    ("torch.", "Module", "torch_module:from_module"),
    ("keras.", "Model", "keras_model:from_model"),
    ("tf_keras.", "Model", "keras_model:from_model"),
    ("mxnet.", "Block", "mxnet_block:from_block"),
    ("mxnet.", "Symbol", "mxnet_block:from_symbol"),
    ("tvm.", None, "ir_module:from_module"),
)
"""Front ends of objects, by package and name of a base class; the first entry that matches counts."""

PAIR_FRONT_ENDS = ("mxnet_block:from_symbol", "ir_module:from_module")
"""Front ends that accept a tuple of a network and its parameters."""

EXAMPLE_FRONT_ENDS = ("torch_module:from_module", "transformers_model", "mxnet_block:from_block")
"""Front ends that accept example inputs."""

PIP_EXTRAS = {"keras_model": "tensorflow", "mxnet_block": "mxnet", "transformers_model": "transformers"}

_log = logging.getLogger(__name__)


def resolve(
    model: object,
    *,
    example_inputs: object = None,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    folder: Path,
    formats: frozenset[str] = frozenset(),
    trust: bool = False,
    calls: Calls | None = None,
) -> ModelFile:
    """Return the file of a network, and bind its inputs as far as the file declares them.

    Args:
        model: A path, ``zoo:NAME[@batch]``, or an object of a framework; ``ACCEPTED`` lists them.
        example_inputs: For a torch module or a gluon block: an array, a tuple of them, or a mapping by argument name.
        inputs: Types by input name, where the network leaves them open.
        batch: Size for open first dimensions.
        folder: Folder for files that are made from objects; a name contains the digest of the content.
        formats: Formats the compiler imports, for objects that can be written in several; empty for all.
        trust: True to run code that the network's file contains.
        calls: The function and the cases to tune; a ``main`` with the sizes of ``inputs`` by default.

    Raises:
        UserError: The network's file contains code and is not trusted, cannot be read or has an unknown type, its
            framework is not installed, or its inputs do not fit or stay open.
        EnvironmentFault: ``folder`` cannot be written.
    """
    if batch is not None and batch < 1:
        raise UserError(f"Batch size must be 1 or more, got {batch}; give for example batch=1")
    source = source_name(model)
    calls = calls or Calls(inputs=inputs or {})
    request = ModelRequest(source, calls.inputs, batch, folder, example_inputs, formats, trust, calls.function)
    if not calls.cases:
        return _resolve_one(model, request)
    files = [_resolve_one(model, replace(request, inputs=case.inputs, function=case.function)) for case in calls.cases]
    if len({file.path for file in files}) > 1:
        raise UserError(
            f"`{source}` is traced at one size, so it has no open sizes to weigh; export it as ONNX with open sizes."
        )
    cases = tuple(replace(case, inputs=file.inputs) for case, file in zip(calls.cases, files, strict=True))
    return replace(files[0], inputs={}, function="", cases=cases)


def _resolve_one(model: object, request: ModelRequest) -> ModelFile:
    """Return the file of a network with one function and one size."""
    file = _find_file(model, request)
    if request.function and file.format != "ir":
        raise UserError(f"`{request.source}` is {file.format}, which has one function; leave `{request.function}` out.")
    return replace(file, function=request.function)


def _find_file(model: object, request: ModelRequest) -> ModelFile:
    if isinstance(model, str) and model.startswith(ZOO):
        _check_example_inputs("", request)
        return _from_zoo(model.removeprefix(ZOO), request)
    subject = _path(model) if isinstance(model, str | Path) else model
    return _call_front_end(find_front_end(model), subject, request=request)


def find_front_end(model: object) -> str:
    """Return the front end of a network, as ``module:function``, without reading the network.

    Raises:
        UserError: There is no such file, it cannot be read, or no front end takes such a file or object.
    """
    if isinstance(model, str) and model.startswith(ZOO):
        return FILE_FRONT_ENDS[".onnx"]
    if isinstance(model, str | Path):
        return _front_end_of_path(_path(model), str(model))
    return _front_end_of_object(model, source_name(model))


def _path(model: str | Path) -> Path:
    path = expand_home(model).absolute()
    # A file dialogue can only select the file inside a SavedModel. The folder is what is checked and loaded.
    return path.parent if path.name == SAVED_MODEL else path


def _call_front_end(front_end: str, model: object, *, request: ModelRequest) -> ModelFile:
    """Import a front end and call it.

    Args:
        front_end: ``module:function`` of the front end.
        model: The path or object of the network.
        request: The options of the user.
    """
    _check_example_inputs(front_end, request)
    if isinstance(model, Path):  # an object is code of the user's own process
        require_harmless(request.source, model, trust=request.trust)
    name, _, function = front_end.partition(":")
    _log.info("Reading `%s` with the front end `%s`.", request.source, name)
    try:
        # Only now: a front end imports its framework, which takes seconds and may not be installed.
        module = import_module(f"passsearch.frontends.{name}")
    except ImportError as error:
        raise UserError(
            f"`{request.source}` needs {error.name or name}, which does not import here ({error}); "
            f"run: {install_command(PIP_EXTRAS.get(name, 'torch'))}, or export the network as ONNX."
        ) from error
    file: ModelFile = getattr(module, function)(model, request)
    _log.debug("`%s` is %s, SHA-256 %s.", file.path, file.format, file.sha256)
    return file


def _check_example_inputs(front_end: str, request: ModelRequest) -> None:
    if request.example_inputs is not None and not front_end.startswith(EXAMPLE_FRONT_ENDS):
        raise UserError(
            f"Example inputs go with torch modules and gluon blocks only; leave them out with `{request.source}`."
        )


def _from_zoo(text: str, request: ModelRequest) -> ModelFile:
    """Return the file of a built-in network; build it if it does not exist."""
    # Imported here: both need onnx, which takes long to import and may not be installed.
    from passsearch.frontends import onnx_file
    from passsearch.frontends.zoo import build

    name, at, size = text.partition("@")
    if at and not (size.isascii() and size.isdigit()):
        raise UserError(
            f"The name of a built-in network reads zoo:NAME[@batch]; got `{request.source}`. For example: zoo:{name}@1"
        )
    batch = int(size) if at else request.batch or 1
    if request.batch not in (None, batch):
        raise UserError(f"`{request.source}` has batch {batch}, not {request.batch}; give one of the two.")
    file_name = cache_file_name(f"{name}-b{batch}", _zoo_digest(), suffix=".onnx")
    path = save_file(
        request.folder, file_name, write=lambda file: file.write_bytes(build(name, batch=batch).SerializeToString())
    )
    return onnx_file.from_path(path, request, name=name)


def _zoo_digest() -> str:
    # The digest of the source, because it is part of the file name, which must be available before a network is built.
    return digest_files(sorted((Path(__file__).parent / "zoo").glob("*.py")))


def _front_end_of_path(path: Path, source: str) -> str:
    """Return the front end of a path; raise if the path does not exist or has an unknown type."""
    try:
        exists = path.exists()
    except OSError as error:
        raise UserError(f"`{source[:80]}` cannot be opened: {error.strerror}. Accepted: {ACCEPTED}.") from None
    if not exists:
        raise UserError(_missing(path, source))
    if not os.access(path, os.R_OK):
        raise UserError(f"`{source}` cannot be read, because you have no permission; allow it with chmod.")
    if path.is_dir():
        candidates = [front_end for entry, front_end in FOLDER_FRONT_ENDS.items() if (path / entry).is_file()]
        if not candidates:
            raise UserError(
                f"`{source}` is a folder with none of {', '.join(FOLDER_FRONT_ENDS)} in it; {_network_in(path, source)}"
            )
        return candidates[0]
    if not path.is_file():
        raise UserError(f"`{source}` is neither a file nor a folder; give the file itself. Accepted: {PATHS}.")
    if path.suffix in WEIGHTS_ONLY:
        raise UserError(f"`{source}` holds weights without their network, by its name; {EXPORT_ADVICE}")
    candidates = [front_end for ending, front_end in FILE_FRONT_ENDS.items() if path.name.endswith(ending)]
    if not candidates:
        raise UserError(f"`{source}` has an unknown file type; {EXPORT_ADVICE}")
    refuse_stand_in(path, source)
    return candidates[0]


def _network_in(folder: Path, source: str) -> str:
    """Return the next step for a folder that is no network: a file in it, if there is one of a network."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.suffix in NETWORK_FILES)
    if not names:
        return EXPORT_ADVICE
    number = len(names) - 1
    verb, noun = ("is", "network") if number == 1 else ("are", "networks")
    others = f" There {verb} {number} other {noun} in it." if number else ""
    return f"did you mean `{Path(source) / names[0]}`?{others}"


def _missing(path: Path, source: str) -> str:
    """Return that a path does not exist, with the next step for what the user may mean."""
    # Imported here: it needs a file of this package only, but is of use in this error alone.
    from passsearch.frontends.zoo import nearest_name

    if path.suffix in FILE_FRONT_ENDS:
        return f"No such file: `{source}`. Check the path; the present folder is `{Path.cwd()}`."
    near = nearest_name(source)
    if near == source:
        return f"No such file: `{source}`. The built-in network of this name is zoo:{source}."
    built_in = f" The nearest built-in network is zoo:{near}." if near else ""
    return (
        f"No such file: `{source}`, and nothing is downloaded by name.{built_in} Save a model of the Hugging Face Hub "
        f"into a folder (`model.save_pretrained`) and give the folder; `passsearch zoo` lists what is built in. "
        f"Accepted: {PATHS}."
    )


def _front_end_of_object(model: object, source: str) -> str:
    """Return the front end of an object; raise if the object is no network."""
    network: Any = model[0] if isinstance(model, tuple) and model else model
    # By the names of its classes: comparing with the classes themselves would import every framework.
    bases = type(network).__mro__
    for package, name, front_end in OBJECT_FRONT_ENDS:
        matches = any(base.__module__.startswith(package) and name in (None, base.__name__) for base in bases)
        if matches and (network is model or front_end in PAIR_FRONT_ENDS):
            return front_end
    raise UserError(f"`{source}` is no network; accepted: {ACCEPTED}.")


def source_name(model: object) -> str:
    """Return the path of a network as the user typed it, or the type of an object."""
    return str(model) if isinstance(model, str | Path) else _type_name(model)


def _type_name(model: object) -> str:
    if isinstance(model, tuple):
        return f"({', '.join(map(_type_name, model))})"
    kind = type(model)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
