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
    model: object, engines: Sequence[str], python: str | Path | None, batch: int | None
) -> tuple[object, Sequence[str], str | Path | None, int | None]:
    """Return the network, the engines, their interpreter and the batch size; of a call without a run, what it names."""
    folder = run_folder(model) if isinstance(model, str | Path) else None
    if folder is None:
        return model, engines, python, batch
    result = read_result(folder)
    source, batch = result["model"]["source"], result["model"].get("batch") if batch is None else batch
    if engines:
        return source, engines, python, batch
    toolchain, default = result["toolchain"]["name"], result["baseline"]["name"]
    rivals = _installed(None if python is None else Path(python))
    if not rivals and python is None:
        # An engine that is installed beside passsearch has no environment of its own.
        rivals, python = [name for name in RIVALS if find_spec(name) is not None], sys.executable
    return source, [f"{toolchain}:{folder}", f"{toolchain}:{default}", *rivals], python, batch


def _installed(python: Path | None) -> list[str]:
    names = []
    for name in RIVALS:
        try:
            engine_spec(name, Path(), python=python)
            names.append(name)
        except EnvironmentFault:  # noqa: PERF203 -- three engines
            continue
    return names
