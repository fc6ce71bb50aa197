"""A network of another framework, imported once by a process of its own and kept as the compiler's IR."""

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

from passsearch import dialects
from passsearch.dialects import Dialect
from passsearch.errors import EnvironmentFault, UserError, WorkerDied
from passsearch.frontends import ModelFile, cache_file_name, digest_files, temporary_subfolder
from passsearch.store import NETWORK
from passsearch.toolchain import Toolchain
from passsearch.worker import Worker

ADVICE = "run: passsearch toolchain install {dialect} --with {name} (or install it beside your own TVM)"


def imported(
    model: ModelFile, *, toolchain: Toolchain, dialect: Dialect, target: str, folder: Path, deadline_s: float
) -> ModelFile:
    """The model file as every worker can load it; one that needs no framework is returned as it is.

    Frameworks live in a process that ends with the import: some die beside others, some only load before the compiler,
    all have threads, and a compiling worker forks.

    Args:
        model: As the user gave it.
        toolchain: Whose interpreter imports it.
        dialect: Of the toolchain.
        target: Of the compiler.
        folder: Where what was imported is kept, under a name made from everything that decides it.
        deadline_s: Longest time the import may take.

    Raises:
        UserError: The toolchain lacks the framework, or the importer refuses the network.
        EnvironmentFault: The importing process died.
    """
    if model.format not in dialect.isolated_imports:
        return model
    kept = folder / cache_file_name(model.name, _digest(model, toolchain=toolchain), suffix="")
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        first = {name: ADVICE.format(dialect=dialect.name, name=name) for name in dialect.isolated_imports[model.format]}
        log = folder / "import.log"
        worker = Worker(toolchain.python, bridge=dialect.bridge, target=target, threads=1, log=log, first=first)
        try:
            with temporary_subfolder(folder) as passing:
                _import(worker, model, made=passing / "made", deadline_s=deadline_s)
                _put(passing / "made", kept)
        except WorkerDied as error:
            told = (
                f"Importing `{model.source}` ended the process ({error}), last words in `{log}`; export ONNX instead."
            )
            raise EnvironmentFault(told) from error
        finally:
            worker.close()
    return replace(model, path=kept / NETWORK, format="ir", inputs={}, batch=None, parameters=None)


def dialect_digest(name: str) -> str:
    """Of the code that decides what a network's IR is and what passes make of it."""
    home = Path(dialects.__file__).parent
    shared = [home / file for file in ("contract.py", "constant_table.py", "linker.py", "shared.py")]
    return digest_files([*shared, *sorted((home / name).rglob("*.py"))])


def _put(made: Path, kept: Path) -> None:
    try:
        os.replace(made, kept)
    except OSError:
        if not kept.exists():  # else another process was quicker
            raise


def _import(worker: Worker, model: ModelFile, *, made: Path, deadline_s: float) -> None:
    made.mkdir()
    request = {"verb": "import", "source": model.to_request(), "path": str(made / NETWORK)}
    answer = worker.ask(request, deadline_s=deadline_s)
    if answer.get("error", {}).get("kind") in ("infra", "oom"):
        raise EnvironmentFault(f"Cannot import `{model.source}`: {answer['error']['reason']}; make room and try again.")
    if "error" in answer:
        raise UserError(f"Cannot import `{model.source}`: {answer['error']['reason']}; export ONNX instead.")


def _digest(model: ModelFile, *, toolchain: Toolchain) -> str:
    """Of the network, of how its inputs are bound and of what imports it."""
    request = model.to_request()
    identity = {
        "model": [model.sha256, model.format, request["inputs"], model.batch],
        "tvm": [toolchain.tvm_version, toolchain.tvm_commit, str(toolchain.python)],
        "dialect": dialect_digest(toolchain.dialect),
    }
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()
