"""Compiler modules: their files, and those in memory, written by their dialect in the interpreter that holds them."""

import json
import sys
from importlib import import_module
from pathlib import Path

from passsearch.dialects import dialect_for_version
from passsearch.errors import UserError
from passsearch.frontends.model_file import ModelFile, digest_files, keep_group
from passsearch.frontends.request import Asked


def from_path(path: Path, asked: Asked, *, name: str | None = None, toolchain: str | None = None) -> ModelFile:
    """A module's JSON, with the parameters beside it if there are any.

    Raises:
        UserError: It holds no module, or inputs or a batch are given, which the module fixes itself.
    """
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
    return ModelFile(path, "ir", name or path.stem, asked.source, digest_files(files), toolchain=toolchain)


def from_module(model: object, asked: Asked) -> ModelFile:
    """A module in memory, or a pair of it and its parameters by name.

    Raises:
        UserError: No dialect covers this compiler's version, its saver does not accept the object, or inputs or a
            batch are given.
        EnvironmentFault: The folder cannot be written.
    """
    module, params = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    home, _, function = dialect_for_version(sys.modules["tvm"].__version__).saver.partition(":")
    save = getattr(import_module(home), function)
    kept = keep_group(asked.folder, "module", write=lambda stem: save(module, Path(f"{stem}.json"), params=params))
    return from_path(Path(f"{kept}.json"), asked, name="module", toolchain="this")
