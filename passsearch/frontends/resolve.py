"""From whatever a user calls a network to a file that a worker can load."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from passsearch.core import TensorType
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, cache_file_name, digest_files, keep_file
from passsearch.frontends.request import Asked

ZOO = "zoo:"
PATHS = (
    ".onnx, TorchScript .pt, torch.export .pt2, a SavedModel's folder, a frozen graph .pb, .tflite, .keras, .h5, "
    "MXNet's NAME-symbol.json with NAME-0000.params beside it, a folder with transformers' config.json, "
    "a compiler module's .json with .params beside it"
)
OBJECTS = (
    "an onnx.ModelProto, a torch.nn.Module with example_inputs, a torch ExportedProgram, a transformers model or "
    "configuration, a Keras model, a gluon HybridBlock with inputs or example_inputs, an MXNet pair (symbol, params), "
    "a tvm.IRModule or a pair (IRModule, params)"
)
ACCEPTED = f"a path ({PATHS}), zoo:NAME[@batch], {OBJECTS}"
WAY_OUT = f"export it as ONNX and give that file. Accepted: {PATHS}."

BY_ENDING = {
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
"""Who reads a file, by how its name ends; the first that fits."""

BY_ENTRY = {"saved_model.pb": "tensorflow_file:from_path", "config.json": "transformers_model:from_folder"}
"""Who reads a folder, by a file in it."""

WEIGHTS_ONLY = (".pth", ".ckpt", ".safetensors", ".params")

BY_BASE = (
    ("onnx.", "ModelProto", "onnx_file:from_proto"),
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
"""Who takes an object, by package and name of a class it descends from; the first that fits."""

PAIRS = ("mxnet_block:from_symbol", "ir_module:from_module")
RUN_ON_EXAMPLES = ("torch_module:from_module", "transformers_model", "mxnet_block:from_block")
EXTRAS = {"keras_model": "tensorflow", "mxnet_block": "mxnet", "transformers_model": "transformers"}


def resolve(
    model: object,
    *,
    example_inputs: object = None,
    inputs: Mapping[str, TensorType] | None = None,
    batch: int | None = None,
    folder: Path,
    formats: frozenset[str] = frozenset(),
) -> ModelFile:
    """Make or find the file of a network and settle its inputs as far as the file shows them.

    Args:
        model: A path, ``zoo:NAME[@batch]``, or an object of a framework; ``ACCEPTED`` lists them.
        example_inputs: For a torch module or a gluon block: an array, a tuple of them, or a mapping by argument name.
        inputs: Types by input name, where the network leaves them open.
        batch: Size for open first dimensions.
        folder: Where files made from objects are kept, named by content.
        formats: Those the compiler imports, for objects that can be written as one or another; empty for all.

    Raises:
        UserError: The network cannot be read, is of no known kind, its framework is not installed, or its inputs do
            not fit or stay open.
        EnvironmentFault: ``folder`` cannot be written.
    """
    if batch is not None and batch < 1:
        raise UserError(f"Batch size must be 1 or more, got {batch}; give for example batch=1")
    typed = isinstance(model, str | Path)
    asked = Asked(str(model) if typed else _type_name(model), inputs or {}, batch, folder, example_inputs, formats)
    if isinstance(model, str) and model.startswith(ZOO):
        _refuse_examples("", asked)
        return _from_zoo(model.removeprefix(ZOO), asked)
    if isinstance(model, str | Path):
        path = Path(model).expanduser().absolute()
        return _front_end(_reader(path, asked.source), path, asked=asked)
    return _front_end(_taker(model, asked.source), model, asked=asked)


def _front_end(target: str, model: object, *, asked: Asked) -> ModelFile:
    """Have one front end do it, imported only now, its framework with it."""
    _refuse_examples(target, asked)
    home, _, function = target.partition(":")
    try:
        module = import_module(f"passsearch.frontends.{home}")
    except ImportError as error:
        raise UserError(
            f"`{asked.source}` needs {error.name or home}, which does not import here ({error}); "
            f"run: pip install 'passsearch[{EXTRAS.get(home, 'torch')}]', or export the network as ONNX."
        ) from error
    file: ModelFile = getattr(module, function)(model, asked)
    return file


def _refuse_examples(target: str, asked: Asked) -> None:
    if asked.example_inputs is not None and not target.startswith(RUN_ON_EXAMPLES):
        raise UserError(
            f"Example inputs go with torch modules and gluon blocks only; leave them out with `{asked.source}`."
        )


def _from_zoo(text: str, asked: Asked) -> ModelFile:
    from passsearch.frontends import onnx_file
    from passsearch.frontends.zoo import build

    name, at, size = text.partition("@")
    if at and not (size.isascii() and size.isdigit()):
        raise UserError(f"A built-in network reads zoo:NAME[@batch]; got `{asked.source}`. For example: zoo:{name}@1")
    batch = int(size) if at else asked.batch or 1
    if asked.batch not in (None, batch):
        raise UserError(f"`{asked.source}` has batch {batch}, not {asked.batch}; give one of the two.")
    made = cache_file_name(f"{name}-b{batch}", _zoo_edition(), suffix=".onnx")
    path = keep_file(
        asked.folder, made, write=lambda file: file.write_bytes(build(name, batch=batch).SerializeToString())
    )
    return onnx_file.from_path(path, asked, name=name)


def _zoo_edition() -> str:
    """Digest of the builders: another edition of a network is another file."""
    return digest_files(sorted((Path(__file__).parent / "zoo").glob("*.py")))


def _reader(path: Path, typed: str) -> str:
    """Who reads this path; refuse what is not there or of no known kind."""
    if not path.exists():
        hint = f" A built-in network is zoo:{typed}." if path.suffix == "" else ""
        raise UserError(f"No such file: `{typed}`.{hint} Accepted: {ACCEPTED}.")
    if path.is_dir():
        found = [reader for entry, reader in BY_ENTRY.items() if (path / entry).is_file()]
        if not found:
            raise UserError(f"`{typed}` is a folder with none of {', '.join(BY_ENTRY)} in it; {WAY_OUT}")
        return found[0]
    if path.suffix in WEIGHTS_ONLY:
        raise UserError(f"`{typed}` holds weights without their network, by its name; {WAY_OUT}")
    readers = [reader for ending, reader in BY_ENDING.items() if path.name.endswith(ending)]
    if not readers:
        raise UserError(f"`{typed}` is of no known kind; {WAY_OUT}")
    if path.stat().st_size == 0:
        raise UserError(f"`{typed}` is empty; export the network again.")
    return readers[0]


def _taker(model: object, named: str) -> str:
    """Who takes this object, told by its classes without importing their package."""
    subject: Any = model[0] if isinstance(model, tuple) and model else model
    bases = type(subject).__mro__
    for package, name, taker in BY_BASE:
        known = any(base.__module__.startswith(package) and name in (None, base.__name__) for base in bases)
        if known and (subject is model or taker in PAIRS):
            return taker
    raise UserError(f"`{named}` is no network; accepted: {ACCEPTED}.")


def _type_name(model: object) -> str:
    if isinstance(model, tuple):
        return f"({', '.join(map(_type_name, model))})"
    kind = type(model)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
