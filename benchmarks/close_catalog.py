"""How far the whole catalog closes: ``python benchmarks/close_catalog.py resnet18 bert_tiny --seconds 3600``.

Explores every candidate of the catalog with every choice of its arguments. Where that does not end in time, the choice
goes without which least is found, one after another, and what is left is explored, until it closes. What was found
is remembered, so that the same command goes on where it ended. ``round_trips`` tells whether the whole can close at
all: the layout transforms after a convolutional network was taken from one layout to the other and back, again and
again. The JSON goes to ``benchmarks/results/close_catalog.json``; ``--table`` prints it as the Markdown of ``docs/search.md``.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from provenance import provenance, settle

from passsearch import explore
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.search.closure import Closure
from passsearch.store import Log

RESULTS = Path(__file__).parent / "results" / "close_catalog.json"
POINTS = 40
"""Of a growth curve that are kept."""
TRIPS = 4


def main() -> None:
    """Explore, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for the whole, in this run")
    parser.add_argument("--part-seconds", type=float, default=3600.0, help="for every part")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"networks": {}}
    for name in arguments.names:
        row = closed(f"zoo:{name}", (arguments.seconds, arguments.part_seconds), known["networks"].get(name, {}))
        row["round_trips"] = round_trips(f"zoo:{name}")
        here = provenance(settle(f"zoo:{name}"))
        known = {**here, "networks": {**known["networks"], name: row}}
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
    if arguments.table:
        print(table(known["networks"]))


def closed(model: str, seconds: tuple[float, float], before: Mapping[str, Any]) -> dict[str, Any]:
    """The whole catalog, then the largest part of it that closes; for so many seconds each."""
    document = explore(model, every=True, timeout=seconds[0], progress=tell)
    closure = Closure.from_json(document["graph"])
    row = {**described(document), **whole_curve(document, before)}
    row["without"] = [{"step": step, "states": states} for states, step in sizes_without(closure)[:5]]
    row["part"], gone = None, []
    while not document["closed"]:
        gone.append(hinge(closure))
        left = [step for step in closure.steps if step != gone[-1]]
        document = explore(model, passes=[",".join(left)], timeout=seconds[1], progress=tell)
        closure = Closure.from_json(document["graph"])
        row["part"] = {"gone": gone, **described(document), "seconds": document["seconds"]}
    return row


def round_trips(model: str) -> list[int]:
    """Layout transforms after so many trips from NCHW to NHWC and back, between simplifying and folding constants."""
    chosen = settle(model)
    trip = (PassSpec.of("ConvertLayout", layout="NHWC"), PassSpec.of("ConvertLayout", layout="NCHW"))
    counts = []
    with TemporaryDirectory(prefix="passsearch-") as name, Log(Path(name) / "log.jsonl") as log:
        evaluator = chosen.evaluator(log, Path(name))
        try:
            for number in range(TRIPS + 1):
                state = evaluator.reach(Pipeline((PassSpec.of("SimplifyInference"), *trip * number)))
                if isinstance(state, Failure):
                    break
                census = evaluator.census(state)
                counts.append(sum(count for kind, count in census.items() if kind.startswith("layout_transform")))
        finally:
            evaluator.close()
    return counts


def described(document: Mapping[str, Any]) -> dict[str, Any]:
    """What the table needs of an exploration."""
    kept = ("closed", "states", "unfinished", "edges", "failed", "depth", "given_up", "restless")
    return {"steps": len(document["steps"]), "idle": len(document["idle"]), **{key: document[key] for key in kept}}


def whole_curve(document: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Seconds and growth over all runs: what an earlier one found is not counted again."""
    offset, points = before.get("seconds", 0.0), list(before.get("growth", []))
    done = points[-1][1] if points else 0
    points += [[round(offset + at, 1), whole, states] for at, whole, states in document["growth"] if whole > done]
    step = max(1, len(points) // POINTS)
    spent = document["seconds"] if document["tried"] else 0.0
    return {"seconds": round(offset + spent, 1), "growth": [*points[:-1:step], *points[-1:]]}


def sizes_without(closure: Closure) -> list[tuple[int, str]]:
    """For every step how many of the states found so far are reached without it, the fewest first."""
    return sorted((len(closure.without(column).states), step) for column, step in enumerate(closure.steps))


def hinge(closure: Closure) -> str:
    """The step that most of what was found hangs on, among those that can go."""
    return next(step for _, step in sizes_without(closure) if step not in ESSENTIAL)


ESSENTIAL = ("SimplifyInference", "FuseOps{fuse_opt_level=2}", "AlterOpLayout", 'FoldConstant{evaluator="numpy"}')
"""Passes without which nothing fast can be made; a part without them would close and be worth nothing."""


def table(rows: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/search.md``."""
    heads = ("network", "choices", "idle", "states", "edges", "depth", "closed", "time", "largest part that closes")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, row in rows.items():
        state = "yes" if row["closed"] else f"no, {row['unfinished']} left"
        part = row["part"]
        rest = "–"
        if part:
            rest = f"{part['states']} states in {part['seconds']:.0f} s without `{'`, `'.join(part['gone'])}`"
        cells = [name, row["steps"], row["idle"], row["states"], row["edges"], row["depth"], state]
        lines.append("| " + " | ".join(map(str, [*cells, f"{row['seconds']:.0f} s", rest])) + " |")
    return "\n".join(lines)


def tell(_stage: str, done: int, known: int) -> None:
    """To standard error, now and then."""
    if done % 25 == 0:
        print(f"{done} of {known}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
