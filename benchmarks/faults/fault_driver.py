"""The command ``passsearch`` with short measurements and faults at the points where it writes.

``python fault_driver.py '{"at": 3, "tear": true, "signal": 9}' tune …``: at the third call of ``fsync`` the end of the
file is cut off and the process gets the signal. Keys of the injection: ``at``, the number of the write, or ``"each"``
for all of them; ``tear``, whether the write stays incomplete; ``signal``, and ``whom`` it meets: ``coordinator``,
``compiler`` or ``timer``.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil

import passsearch.api
from passsearch.api import rivals
from passsearch.cli import main
from passsearch.evaluate import MeasurementPlans

TORN_BYTES = 9
WORKERS = ("compiler", "timer")
"""The two worker processes, in the order in which a run starts them."""


def short_plans() -> MeasurementPlans:
    """Return plans that measure for milliseconds: no benchmark of faults asks how fast a network is."""
    plans = MeasurementPlans()
    rounds = {"rounds": 3, "run_s": 0.001}
    return replace(
        plans,
        search_rounds=replace(plans.search_rounds, **rounds),
        shortlist_rounds=replace(plans.shortlist_rounds, **rounds),
        final_rounds=replace(plans.final_rounds, **rounds),
        places=replace(plans.places, processes=1, rounds=2),
        processes=1,
        least_processes=1,
        most_processes=1,
        most_repetitions=1,
    )


def inject(fault: Mapping[str, Any]) -> None:
    """Let a fault happen at calls of ``os.fsync``, which a run makes whenever a fact or a file must be on disk."""
    sync: Callable[[int], None] = os.fsync
    calls = count(1)

    def fsync(descriptor: int) -> None:
        if fault["at"] in (next(calls), "each"):
            file = Path(f"/proc/self/fd/{descriptor}")
            if fault.get("tear") and file.is_file():
                os.truncate(file, max(0, file.stat().st_size - TORN_BYTES))
            _send(fault["signal"], fault.get("whom", "coordinator"))
        sync(descriptor)

    os.fsync = fsync  # type: ignore[assignment]


def _send(signal_number: int, whom: str) -> None:
    if whom == "coordinator":
        os.kill(os.getpid(), signal_number)
        return
    workers = sorted(psutil.Process().children(), key=lambda process: process.create_time())
    for worker in workers[WORKERS.index(whom) :][:1]:
        os.kill(worker.pid, signal_number)


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # `nohup` would let this process ignore it
    rivals.PROCESSES, rivals.ROUNDS = 2, 2
    passsearch.api.tune = partial(passsearch.api.tune, plans=short_plans())
    if injection := json.loads(sys.argv[1]):
        inject(injection)
    sys.exit(main(sys.argv[2:]))
