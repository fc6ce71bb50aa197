"""How soon a second ``tune`` is where the first one was: ``python benchmarks/tune_again.py resnet18``.

Tunes a network with an empty cache folder, then again in another run folder with what the first run has remembered, and
notes when each had its trials. The JSON goes to ``benchmarks/results/tune_again.json``.
"""

import argparse
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provenance import settle, write_row

import passsearch

RESULTS = Path(__file__).parent / "results" / "tune_again.json"
FIRST = 20


def main() -> None:
    """Tune twice, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+")
    parser.add_argument("--trials", type=int, default=25)
    parser.add_argument("--passes", metavar="A,B", help="these alone; the network's candidates by default")
    arguments = parser.parse_args()
    passes = arguments.passes.split(",") if arguments.passes else None
    for name in arguments.names:
        with TemporaryDirectory(prefix="passsearch-") as cache:
            os.environ["XDG_CACHE_HOME"] = cache
            settle(f"zoo:{name}")  # makes the network's file, which is not what is timed
            runs = [tuned(f"zoo:{name}", arguments.trials, passes=passes) for _ in ("first", "second")]
            write_row(RESULTS, "networks", name=name, row={"runs": runs}, chosen=settle(f"zoo:{name}"))
        print(name, json.dumps(runs))


def tuned(model: str, trials: int, *, passes: list[str] | None) -> dict[str, Any]:
    """One run in a folder of its own, without the confirmation, which is always measured anew."""
    reached: dict[int, float] = {}
    start = time.monotonic()

    def note(stage: str, done: int, _all: int) -> None:
        if stage == "searching":
            reached.setdefault(done, round(time.monotonic() - start, 2))

    with TemporaryDirectory(prefix="passsearch-") as folder:
        result = passsearch.tune(
            model, trials=trials, passes=passes, confirm=0, out=Path(folder) / "run", progress=note
        )
    return {
        "trials": trials,
        "passes": passes,
        "seconds_to_trial": {str(FIRST): next((at for done, at in reached.items() if done >= FIRST), None)},
        "seconds": round(time.monotonic() - start, 2),
        "built_s": result.document["seconds"].get("build", 0.0),
    }


if __name__ == "__main__":
    main()
