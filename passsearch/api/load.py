"""A run's winner as a function in the user's own process."""

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

from passsearch.dialects import dialect
from passsearch.errors import UserError
from passsearch.evaluate import device_of
from passsearch.export import BUILT, SCRIPT, export_run
from passsearch.frontends import temporary_subfolder
from passsearch.toolchain import get_toolchain
from passsearch.worker import run_script

COMPILED = "compiled"


def opened(document: Mapping[str, Any], run: Path) -> Callable[..., Any]:
    """Build it by its exported script, which checks every IR and the outputs, unless that was done; then load it.

    Raises:
        UserError: This interpreter does not have the TVM that compiled it, or the script's checks fail.
    """
    told = document["toolchain"]
    chosen = dialect(told["dialect"])
    if not chosen.opener:
        raise UserError(f"A network compiled by {chosen.name} does not load into a process; use its exported script.")
    if _own_version() != told["tvm_version"]:
        raise UserError(
            f"This needs TVM {told['tvm_version']} in the interpreter you call it from, which has "
            f"{_own_version() or 'none'}; run there: pip install 'passsearch[{chosen.name}]'"
        )
    if not document["deployment"]["expected"]:
        raise UserError(
            f"Nothing here runs what is compiled for `{document['target']}`; take the exported script there."
        )
    # A run that goes on may come to another winner.
    winner = f"{document['best']['pipeline']}|{document['best']['build']}"
    folder = run.absolute() / f"{COMPILED}-{crc32(winner.encode()):08x}"
    if not folder.exists():
        _build(document, run, folder=folder)
    home, _, function = chosen.opener.partition(":")
    device = device_of(document["target"])
    function_of_tensors: Callable[..., Any] = getattr(import_module(home), function)(folder, device)
    return function_of_tensors


def _own_version() -> str:
    """Of the TVM in this interpreter; empty without any."""
    try:
        return get_toolchain("this").tvm_version
    except UserError:
        return ""


def _build(document: Mapping[str, Any], run: Path, *, folder: Path) -> None:
    python = get_toolchain(document["toolchain"]["name"]).python
    with temporary_subfolder(run.absolute()) as passing:
        script = export_run(document, run, to=passing / "deploy") / SCRIPT
        if run_script(python, script, to_stderr=True):
            raise UserError(f"The script that builds the winner of `{run}` failed; what it said stands above.")
        os.replace(script.parent / BUILT, folder)
