"""Front end for compiler modules: their files, and modules in memory."""

import json
import sys
from importlib import import_module
from pathlib import Path

from passsearch.dialects import dialect_for_version
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, save_group
from passsearch.frontends.request import ModelRequest


def from_path(path: Path, request: ModelRequest, *, name: str | None = None, toolchain: str | None = None) -> ModelFile:
    """Return the JSON file of a module, with the parameter file beside it if there is one.

    Raises:
        UserError: The file holds no module, or the user states inputs or a batch, which a module fixes itself.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"Cannot read `{request.source}` as a compiler module ({error}); save it with tvm.ir.save_json."
        ) from error
    # Old versions of TVM write `root`, new ones `root_index`. Other JSON graphs, such as MXNet's, have `nodes` too.
    if not isinstance(content, dict) or "nodes" not in content or not {"root", "root_index"} & set(content):
        raise UserError(f"`{request.source}` holds no compiler module; save one with tvm.ir.save_json.")
    if request.inputs or request.batch is not None:
        raise UserError(f"`{request.source}` fixes its own inputs; leave the inputs and the batch out.")
    files = [file for file in (path, path.with_suffix(".params")) if file.exists()]
    return ModelFile(path, "ir", name or path.stem, request.source, digest_files(files), toolchain=toolchain)


def from_module(model: object, request: ModelRequest) -> ModelFile:
    """Save a module in memory, or a pair of a module and its parameters by name.

    Raises:
        UserError: No dialect supports this compiler's version, the dialect cannot save the object, or the user states
            inputs or a batch.
        EnvironmentFault: The folder cannot be written.
    """
    module, params = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    # The object exists, so its compiler is imported; the dialect of exactly that compiler writes the file.
    module_name, _, function = dialect_for_version(sys.modules["tvm"].__version__).saver.partition(":")
    save = getattr(import_module(module_name), function)
    stem = save_group(request.folder, "module", write=lambda stem: save(module, Path(f"{stem}.json"), params=params))
    return from_path(Path(f"{stem}.json"), request, name="module", toolchain="this")
