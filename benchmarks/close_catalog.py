"""How far the whole catalog closes: ``python benchmarks/close_catalog.py resnet18 bert_tiny --seconds 3600``.

Explores every candidate of the catalog with every choice of its arguments, and where that does not end in time what is
left ``--without`` some of them, once for each time the option is given. What was found is remembered, so that the same
command goes on where it ended.
``round_trips`` tells whether the whole can close at all: the layout transforms after a convolutional network was taken
from one layout to the other and back, again and again. The JSON goes to ``benchmarks/results/close_catalog.json``;
``--table`` prints it as the Markdown of ``docs/search.md``.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from provenance import read_rows, settle, write_row

from passsearch import explore
from passsearch.api.common import evaluating
from passsearch.catalog import load
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate.closure import FAILED, UNTRIED, Closure
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
    parser.add_argument(
        "--without", nargs="+", action="append", default=[], metavar="STEP", help="what goes where that does not close"
    )
    parser.add_argument("--part-seconds", type=float, default=3600.0, help="for every such part, in this run")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    unbounded = [entry.name for entry in load("relay").entries.values() if entry.unbounded]
    for name in arguments.names:
        row = explored(f"zoo:{name}", arguments.seconds, every=True, additional=unbounded)
        row["parts"] = []
        for gone in arguments.without if not row["closed"] else ():
            rest = [step for step in row["steps"] if step not in gone]
            if any(step.partition("{")[0] in rest for step in gone):
                raise SystemExit(f"a bare name stands for all its choices; leave it out too: {gone}")
            part = explored(f"zoo:{name}", arguments.part_seconds, passes=[",".join(rest)])
            row["parts"].append({"without": gone, **part})
        row |= remembered(f"zoo:{name}")
        row["round_trips"] = round_trips(f"zoo:{name}")
        write_row(RESULTS, "networks", name=name, row=row, chosen=settle(f"zoo:{name}"))
    if arguments.table:
        print(table(read_rows(RESULTS, "networks")))


def explored(model: str, seconds: float, **what: Any) -> dict[str, Any]:
    """One exploration, as far as the table needs it."""
    document = explore(model, timeout=seconds, progress=tell, **what)
    closure = Closure.from_json(document["graph"])
    columns, tried = range(len(closure.steps)), closure.table != UNTRIED
    mean_s = closure.seconds.sum(axis=0) / np.maximum(tried.sum(axis=0), 1)
    failures = (closure.table <= FAILED).sum(axis=0)
    hinges = sorted(
        (len(closure.reached([*columns[:gone], *columns[gone + 1 :]])), closure.steps[gone]) for gone in columns
    )
    kept = ("steps", "idle", "closed", "states", "unfinished", "edges", "failed", "depth", "given_up", "unsteady")
    return {
        **{key: document[key] for key in kept},
        "last_run_s": document["seconds"],
        "seconds_by_step": dict(zip(closure.steps, mean_s.round(3).tolist(), strict=True)),
        "failed_by_step": {step: int(count) for step, count in zip(closure.steps, failures, strict=True) if count},
        "states_without": [{"step": step, "states": states} for states, step in hinges[:5]],
        "closed_part": document["closed_part"],
    }


def round_trips(model: str) -> list[int]:
    """Layout transforms after so many trips from NCHW to NHWC and back, batch_norm being simplified."""
    trip = (PassSpec.of("ConvertLayout", layout="NHWC"), PassSpec.of("ConvertLayout", layout="NCHW"))
    counts = []
    with evaluating(settle(model), remember=False) as evaluator:
        for number in range(TRIPS + 1):
            state = evaluator.reach(Pipeline((PassSpec.of("SimplifyInference"), *trip * number)))
            if isinstance(state, Failure):
                break
            census = evaluator.census(state)
            counts.append(sum(count for kind, count in census.items() if kind.startswith("layout_transform")))
    return counts


def remembered(model: str) -> dict[str, Any]:
    """What all explorations of a network took, and how edges and states grew with that time."""
    with Log(settle(model).memory, writable=False) as log:
        points, states, edges = [], set[str](), 0
        for (kind, key), at in log.times.items():
            if kind == "edge":
                edges += 1
                states.add((log.recall(kind, key) or {}).get("state", ""))
                points.append([round(at, 1), edges, len(states - {""})])
        return {"seconds": round(log.seconds, 1), "growth": [*points[:: max(1, len(points) // POINTS)], *points[-1:]]}


def table(rows: Mapping[str, Any]) -> str:
    """The Markdown of ``docs/search.md``."""
    heads = ("network", "without", "choices", "idle", "states", "edges", "depth", "closed", "s an IR", "time")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, whole in rows.items():
        for row in (whole, *whole["parts"]):
            gone = ", ".join(f"`{step}`" for step in row.get("without", ())) or "–"
            end = "yes" if row["closed"] else f"no: {row['unfinished']} states have edges left"
            an_ir = f"{sum(row['seconds_by_step'].values()):.1f}" if "seconds_by_step" in row else "–"
            sizes = (len(row["steps"]), len(row["idle"]), row["states"], row["edges"], row["depth"])
            lines.append(
                "| " + " | ".join(map(str, (name, gone, *sizes, end, an_ir, f"{whole['seconds']:.0f} s"))) + " |"
            )
    return "\n".join(lines)


def tell(_stage: str, done: int, known: int) -> None:
    """To standard error, now and then."""
    if done % 25 == 0:
        print(f"{done} of {known}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
