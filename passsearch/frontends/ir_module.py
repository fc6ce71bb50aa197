"""In-memory compiler modules, written by their dialect in the interpreter that holds them."""

import os
import sys
from importlib import import_module
from pathlib import Path

from passsearch.dialects import dialect_for_version
from passsearch.frontends.model_file import digest_files, kept_name, passing_folder


def save(module: object, params: object, *, folder: Path) -> Path:
    """Write a module, and its parameters beside it, under a name made from their content.

    Args:
        module: What the dialect's saver accepts.
        params: Arrays by name, or ``None``.
        folder: Where the files go; files that are there already stay as they are.

    Raises:
        UserError: No dialect covers this compiler's version, or its saver does not accept the object.
        EnvironmentFault: ``folder`` cannot be written.
    """
    home, _, function = dialect_for_version(sys.modules["tvm"].__version__).saver.partition(":")
    with passing_folder(folder) as passing:
        written = passing / "module.json"
        getattr(import_module(home), function)(module, written, params=params)
        files = sorted(passing.iterdir())
        kept = folder.absolute() / kept_name("module", digest_files(files), suffix=".json")
        # The module goes last: where it is, its parameters are.
        for file in sorted(files, key=lambda each: each == written):
            os.replace(file, kept.with_suffix(file.suffix))
    return kept
