"""Compares a second ``tune`` of a network with its first: ``python benchmarks/tune_again.py resnet18``.

Tunes a network with an empty cache folder, then again in another run folder with the facts of the first run, and notes
when each run has finished its trials. The result is in ``benchmarks/results/tune_again.json``.
"""

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provenance import network_session, write_row

import passsearch

RESULTS = Path(__file__).parent / "results" / "tune_again.json"
TRIALS_NOTED = 20
"""Number of trials whose time is written."""


def main() -> None:
    """Tune every network twice and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--passes", metavar="A,B", help="the only passes to search; the network's by default")
    arguments = parser.parse_args()
    passes = arguments.passes.split(",") if arguments.passes else None
    for name in arguments.names:
        with TemporaryDirectory(prefix="passsearch-") as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            # This also writes the network's file, so that the first run does not spend time on it.
            session = network_session(f"zoo:{name}")
            runs = [tune(f"zoo:{name}", arguments.trials, passes=passes) for _ in ("first", "second")]
            write_row(RESULTS, "networks", name=name, row={"runs": runs}, session=session)
        print(name, json.dumps(runs))


def tune(model: str, trials: int, *, passes: list[str] | None) -> dict[str, Any]:
    """Tune in a new run folder and return the times. There is no confirmation, which uses no facts of earlier runs."""
    seconds_by_trial: dict[int, float] = {}
    start = time.monotonic()

    def note(stage: str, done: int, _total: int) -> None:
        if stage == "searching":
            seconds_by_trial.setdefault(done, round(time.monotonic() - start, 2))

    with TemporaryDirectory(prefix="passsearch-") as folder:
        result = passsearch.tune(
            model, trials=trials, passes=passes, confirm=0, out=Path(folder) / "run", progress=note
        )
    noted_s = next((seconds for trial, seconds in seconds_by_trial.items() if trial >= TRIALS_NOTED), None)
    return {
        "trials": trials,
        "passes": passes,
        "seconds_to_trial": {str(TRIALS_NOTED): noted_s},
        "seconds": round(time.monotonic() - start, 2),
        "built_s": result.document["seconds"].get("build", 0.0),
    }


if __name__ == "__main__":
    main()
