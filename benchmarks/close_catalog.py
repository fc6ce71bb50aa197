"""Measures how far the whole catalog closes: ``python benchmarks/close_catalog.py resnet18 bert_tiny --seconds 3600``.

Explores every pass of Relay's catalog with every choice of its arguments. If that does not close in time, the
exploration is repeated without the passes of each ``--without`` option. All edges go to the fact cache, so the same
command continues where it ended. ``round_trips`` in the result shows whether the whole catalog can close at all: it
counts the layout transforms after a network was taken from one layout to the other and back, several times. The result
is in ``benchmarks/results/close_catalog.json``; ``--table`` prints it as the Markdown of ``docs/evidence/search.md``.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from provenance import network_session, read_rows, write_row

import passsearch
from passsearch.catalog import load
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate import FAILED, UNTRIED, Closure, Session, recorded_edges
from passsearch.store import Log

RESULTS = Path(__file__).parent / "results" / "close_catalog.json"
POINTS = 40
"""Number of points of a growth curve that are written."""
DIALECT = "relay"
"""Dialect whose catalog is explored, and name of the toolchain that ``passsearch toolchain install`` makes for it."""
TRIPS = 4
"""Largest number of round trips between two layouts."""
CERTIFICATE_KEYS = (
    "steps",
    "idle",
    "closed",
    "states",
    "unfinished",
    "edges",
    "failed",
    "depth",
    "given_up",
    "unsteady",
)
"""Keys of an explored space that the result repeats."""


def main() -> None:
    """Explore and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for the whole catalog, in this run")
    parser.add_argument(
        "--without", nargs="+", action="append", default=[], metavar="STEP", help="passes to leave out if it stays open"
    )
    parser.add_argument("--part-seconds", type=float, default=3600.0, help="for every such part, in this run")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.names:
        session = network_session(f"zoo:{name}", DIALECT)
        row = explore_all(f"zoo:{name}", arguments)
        row |= growth_of_all_runs(session)
        row["round_trips"] = round_trips(f"zoo:{name}")
        write_row(RESULTS, "networks", name=name, row=row, session=session)
    if arguments.table:
        print(table(read_rows(RESULTS, "networks")))


def explore_all(model: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Explore the whole catalog and, if it does not close, its parts; return the row of a network."""
    unbounded = [entry.name for entry in load(DIALECT).entries.values() if entry.unbounded]
    row = explore(model, arguments.seconds, every=True, additional=unbounded)
    row["parts"] = []
    for omitted in arguments.without if not row["closed"] else ():
        steps = [step for step in row["steps"] if step not in omitted]
        if any(step.partition("{")[0] in steps for step in omitted):
            raise SystemExit(f"a bare name stands for all its choices; leave it out too: {omitted}")
        part = explore(model, arguments.part_seconds, passes=[",".join(steps)])
        row["parts"].append({"without": omitted, **part})
    return row


def explore(model: str, seconds: float, **passes: Any) -> dict[str, Any]:
    """Return the numbers of one exploration that the table needs."""
    document = passsearch.explore(model, toolchain=DIALECT, timeout=seconds, progress=show, **passes)
    closure = Closure.from_json(document["graph"])
    applications = np.maximum((closure.table != UNTRIED).sum(axis=0), 1)
    mean_s = closure.seconds.sum(axis=0) / applications
    failures = (closure.table <= FAILED).sum(axis=0)
    return {
        **{key: document[key] for key in CERTIFICATE_KEYS},
        "last_run_s": document["seconds"],
        "seconds_by_step": dict(zip(closure.steps, mean_s.round(3).tolist(), strict=True)),
        "failed_by_step": {step: int(count) for step, count in zip(closure.steps, failures, strict=True) if count},
        "states_without": states_without(closure)[:5],
        "closed_part": document["closed_part"],
    }


def states_without(closure: Closure) -> list[dict[str, Any]]:
    """Return, for every pass, the number of states that remain without it, the fewest first."""
    columns = range(len(closure.steps))
    rows = [(len(closure.reached([*columns[:gap], *columns[gap + 1 :]])), closure.steps[gap]) for gap in columns]
    return [{"step": step, "states": states} for states, step in sorted(rows)]


def round_trips(model: str) -> list[int]:
    """Return the number of layout transforms after 0, 1, ... trips from NCHW to NHWC and back."""
    trip = (PassSpec.of("ConvertLayout", layout="NHWC"), PassSpec.of("ConvertLayout", layout="NCHW"))
    counts = []
    with passsearch.session(model, toolchain=DIALECT, remember=False) as evaluator:
        for number in range(TRIPS + 1):
            # ConvertLayout does not convert a batch_norm, so that is simplified first.
            state = evaluator.reach(Pipeline((PassSpec.of("SimplifyInference"), *trip * number)))
            if isinstance(state, Failure):
                break
            op_counts = evaluator.op_counts(state)
            counts.append(sum(count for kind, count in op_counts.items() if kind.startswith("layout_transform")))
    return counts


def growth_of_all_runs(session: Session) -> dict[str, Any]:
    """Return the time of all explorations of a network, and the edges and states they had over that time."""
    points: list[list[float]] = []
    states: set[str] = set()
    with Log(session.cache_path, writable=False) as cache:
        for number, recorded in enumerate(recorded_edges(cache), 1):
            if isinstance(recorded.edge.target, str):
                states.add(recorded.edge.target)
            points.append([round(recorded.written_s, 1), number, len(states)])
        seconds = cache.seconds
    return {"seconds": round(seconds, 1), "growth": thin_out(points)}


def thin_out(points: Sequence[list[float]]) -> list[list[float]]:
    """Return about ``POINTS`` points of a curve, its last one included."""
    return [*points[:: max(1, len(points) // POINTS)], *points[-1:]]


def table(rows: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/search.md``."""
    heads = ("network", "without", "choices", "idle", "states", "edges", "depth", "closed", "s an IR", "time")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, whole in rows.items():
        for row in (whole, *whole["parts"]):
            omitted = ", ".join(f"`{step}`" for step in row.get("without", ())) or "–"
            closed = "yes" if row["closed"] else f"no: {row['unfinished']} states have edges left"
            seconds_per_ir = f"{sum(row['seconds_by_step'].values()):.1f}" if "seconds_by_step" in row else "–"
            sizes = (len(row["steps"]), len(row["idle"]), row["states"], row["edges"], row["depth"])
            cells = (name, omitted, *sizes, closed, seconds_per_ir, f"{whole['seconds']:.0f} s")
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def show(_stage: str, done: int, total: int) -> None:
    """Print every 25th step to standard error."""
    if done % 25 == 0:
        print(f"{done} of {total}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
