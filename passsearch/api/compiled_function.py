"""The winner of a run as a function in the user's own process."""

import logging
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

from passsearch.core import install_command
from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate import BUILD, device_of, is_signed, sign
from passsearch.export import ARTIFACT_FOLDER, SCRIPT, export_run
from passsearch.frontends import temporary_subfolder
from passsearch.standalone.deployment.checked_files import Built, DeploymentError
from passsearch.store import read_deployment
from passsearch.toolchain import Toolchain, get_toolchain
from passsearch.worker import run_script

COMPILED = "compiled"
"""Beginning of the name of the folder, in the run folder, that holds the winner's files."""

_log = logging.getLogger(__name__)


def compiled_function(
    document: Mapping[str, Any], run: Path, *, catalogs: Sequence[Path] = (), trust: bool = False
) -> Callable[..., Any]:
    """Load the winner of a run; the first call builds it by its exported script, all checks included.

    Args:
        document: The run's result.
        run: The run folder.
        catalogs: YAML files with the user's own passes.
        trust: True to use passes that only the run folder names.

    Raises:
        UserError: The run was interrupted, this interpreter does not have the TVM that compiled it, or the script's
            checks fail.
    """
    toolchain = document["toolchain"]
    compiler = dialect(toolchain["dialect"])
    if not compiler.opener:
        raise UserError(f"A network compiled by {compiler.name} does not load into a process; use its exported script.")
    deployment = read_deployment(document, run)
    if deployment.get("calls"):
        raise UserError(
            "The network has several functions; export it, and load one: run_model.load(folder, function=…)"
        )
    # Compiled files are made for the runtime of the TVM that compiled them.
    if own_version() != toolchain["tvm_version"]:
        raise UserError(
            f"This needs TVM {toolchain['tvm_version']} in the interpreter you call it from, which has "
            f"{own_version() or 'none'}; run there: {install_command(compiler.name)}"
        )
    if not deployment["expected"]:
        raise UserError(
            f"Nothing here runs what is compiled for `{document['target']}`; take the exported script there."
        )
    # A continued run may find another winner, so the folder is named after the winner.
    winner = f"{document['best']['pipeline']}|{document['best']['build']}"
    folder = run.absolute() / f"{COMPILED}-{crc32(winner.encode()):08x}"
    origin = {"network": document["model"]["sha256"], "toolchain": f"{toolchain}", BUILD: folder.name, "winner": winner}
    if not is_signed(folder, origin):
        _build(document, run, folder=folder, catalogs=catalogs, trust=trust)
        sign(folder, origin)
    try:
        return open_built(compiler.opener, Built(folder), document["target"])
    except DeploymentError as error:
        raise UserError(str(error)) from None


def open_built(opener: str, built: Built, target: str) -> Callable[..., Any]:
    """Return a built network as a function.

    Args:
        opener: The opener of its dialect.
        built: The built folder.
        target: What it was built for.

    Raises:
        DeploymentError: A file is not as it was built.
    """
    home, _, name = opener.partition(":")
    function: Callable[..., Any] = getattr(import_module(home), name)(built, device_of(target))
    return function


def own_version() -> str:
    """Return the version of the TVM in this interpreter; empty without one."""
    own = own_toolchain()
    return "" if own is None else own.tvm_version


def own_toolchain() -> Toolchain | None:
    """Return this interpreter as a toolchain; ``None`` if it has no TVM that works."""
    try:
        return get_toolchain("this")
    except UserError:
        return None


def _build(document: Mapping[str, Any], run: Path, *, folder: Path, catalogs: Sequence[Path], trust: bool) -> None:
    _log.info("building the winner of %s by its exported script", run)
    # In a process of its own: a compiler that crashes must not end the user's notebook.
    python = get_toolchain(document["toolchain"]["name"]).python
    # The folder gets its name when it is complete; an interrupted build is made again.
    with temporary_subfolder(run.absolute()) as temporary:
        script = export_run(document, run, to=temporary / "deploy", catalogs=catalogs, trust=trust) / SCRIPT
        # Standard output may be the JSON document of the command that calls this.
        if run_script(python, script, to_stderr=True):
            raise UserError(f"The script that builds the winner of `{run}` failed; its messages stand above.")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(script.parent / ARTIFACT_FOLDER, folder)
