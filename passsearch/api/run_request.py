"""What ``bench RUN`` measures: the winner of a run beside TVM's default and the engines that the user has."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from passsearch.api.common import run_folder
from passsearch.api.rivals import RIVALS
from passsearch.engines import engine_spec
from passsearch.errors import EnvironmentFault
from passsearch.store import read_result


def of_run(
    model: object, engines: Sequence[str], python: str | Path | None
) -> tuple[object, Sequence[str], str | Path | None]:
    """Return the network, the engines and their interpreter; of a call without a run, what it names."""
    folder = run_folder(model) if isinstance(model, str | Path) else None
    if folder is None:
        return model, engines, python
    result = read_result(folder)
    if engines:
        return result["model"]["source"], engines, python
    toolchain, default = result["toolchain"]["name"], result["baseline"]["name"]
    rivals = _installed(None if python is None else Path(python))
    if not rivals and python is None:
        # An engine that is installed beside passsearch has no environment of its own.
        rivals, python = [name for name in RIVALS if find_spec(name) is not None], sys.executable
    return result["model"]["source"], [f"{toolchain}:{folder}", f"{toolchain}:{default}", *rivals], python


def _installed(python: Path | None) -> list[str]:
    names = []
    for name in RIVALS:
        try:
            engine_spec(name, Path(), python=python)
            names.append(name)
        except EnvironmentFault:  # noqa: PERF203 -- three engines
            continue
    return names
