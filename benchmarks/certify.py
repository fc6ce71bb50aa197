"""Finds the true best of measured spaces: ``python benchmarks/certify.py resnet18 mobilenet_v2``.

For every space it takes the best build by throughput, and the quickest compile among the builds that keep 98 % of -O3's
throughput. Both are compiled afresh three times and timed beside -O3 in new processes, on samples that did not choose
them. The result also has the cost of two simplifications of the search: the spread of binaries that share one
measurement, and the loss by searching only the passes of the network's architecture classes. It is in
``benchmarks/results/certified.json``; ``--table`` prints it as the Markdown of ``docs/evidence/search.md``.
"""

import argparse
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measured import KEEP, SPACES, candidate, read_space
from provenance import read_rows, write_row

import passsearch
from passsearch.core import Failure, PassSpec, Pipeline
from passsearch.evaluate import Closure, WorkerEvaluator
from passsearch.search import Pairing, confirm, explored_passes
from passsearch.search.document import ratio_document

RESULTS = Path(__file__).parent / "results" / "certified.json"
REPETITIONS = 3
SHORTCUTS = ("evaluator", "look_first")
"""Arguments that lead to the same IR in less time."""
Row = Mapping[str, Any]


def main() -> None:
    """Confirm the best of every space and write the JSON, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    for name in arguments.names:
        document = read_space(SPACES / f"{name}.json.gz")
        with passsearch.session(document["model"]["source"], remember=False) as evaluator:
            row = certify(document, evaluator)
        write_row(RESULTS, "spaces", name=name, row={"keep_throughput": KEEP, **row}, session=evaluator.session)
    if arguments.table:
        print(table(read_rows(RESULTS, "spaces")))


def certify(document: Mapping[str, Any], evaluator: WorkerEvaluator) -> dict[str, Any]:
    """Return the row of one space."""
    closure = Closure.from_json(document["graph"])
    rows = [row for row in document["builds"] if "failure" not in row]
    fastest = max(rows, key=lambda row: float(row["ratio"]))
    classes, _ = explored_passes(evaluator.session, evaluator.network.summary, passes=None)
    best = {
        "throughput": confirm_build(closure, fastest, evaluator=evaluator),
        "compile_time": confirm_build(closure, quickest_compile(rows), evaluator=evaluator),
    }
    twins = [twin["ratio"] for twin in document["builds"][0]["twins"]]
    return {
        "states": len(closure.states),
        "closed": closure.closed,
        "candidates": len(document["builds"]),
        "failed": len(document["builds"]) - len(rows),
        "binaries": len({row["binary"] for row in rows}),
        "kernels": len({row["kernels"] for row in rows}),
        "twins": [min(twins), max(twins)],
        "best": best,
        "collapse": collapse(rows),
        "classes": restrict(closure, rows, steps=[str(step) for step in classes]),
    }


def quickest_compile(rows: Sequence[Row]) -> Row:
    """Return the build that compiles quickest among those no slower than -O3."""
    no_slower = [row for row in rows if row["ratio"] >= KEEP]
    # A single build says little of a compile time. Where some builds were repeated, only these compete.
    repeated = [row for row in no_slower if "compile_s" in row] or no_slower
    return min(repeated, key=lambda row: float(row["compile_seconds"]))


def confirm_build(closure: Closure, row: Row, *, evaluator: WorkerEvaluator) -> dict[str, Any]:
    """Return the numbers of one build in the space, and those of fresh compiles."""
    best, baseline = candidate(closure, row), evaluator.session.dialect.baseline
    twin = evaluator.build(evaluator.graph.root, baseline)
    if isinstance(twin, Failure):
        raise SystemExit(twin.reason)
    confirmation = confirm(
        evaluator,
        Pairing(baseline, best, twin, "throughput"),
        repetitions=REPETITIONS,
        progress=lambda text: print(text, file=sys.stderr, flush=True),
    )
    if isinstance(confirmation, Failure):
        raise SystemExit(confirmation.reason)
    return {
        "pipeline": str(best.pipeline),
        "opt_level": row["opt_level"],
        "measured": {key: row[key] for key in ("ratio", "interval", "apply_s", "build_s", "compile_s") if key in row},
        "throughput": ratio_document(confirmation.throughput),
        "compile_time": ratio_document(confirmation.compile_time),
        "noise_floor": floor if math.isfinite(floor := confirmation.floor("throughput")) else None,
        "same_binary": confirmation.same_binary,
    }


def collapse(rows: Sequence[Row]) -> dict[str, Any]:
    """Compare binaries that call the same kernels in the same order, of which a search measures only the first.

    Returns:
        ``groups`` with the ratios of each group, and ``regret``: the share by which the best first binary stays behind
        the best of all.
    """
    by_kernels: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_kernels.setdefault(row["kernels"], {}).setdefault(row["binary"], row)
    groups = [
        {
            "binaries": len(binaries),
            "ratios": [row["ratio"] for row in binaries.values()],
            "overlap": max(map(low, binaries.values())) <= min(map(high, binaries.values())),
        }
        for binaries in by_kernels.values()
        if len(binaries) > 1
    ]
    best = max(float(row["ratio"]) for row in rows)
    best_first = max(float(next(iter(binaries.values()))["ratio"]) for binaries in by_kernels.values())
    return {"groups": groups, "regret": 1 - best_first / best}


def low(row: Row) -> float:
    """Return the lower end of a row's interval."""
    return float(row["interval"][0] or 0.0)


def high(row: Row) -> float:
    """Return the upper end of a row's interval."""
    return float(row["interval"][1] or math.inf)


def restrict(closure: Closure, rows: Sequence[Row], *, steps: Sequence[str]) -> dict[str, Any]:
    """Compare the best build with the best one that the passes of the network's classes reach."""
    allowed = {without_shortcuts(step) for step in steps}
    columns = [column for column, step in enumerate(closure.steps) if without_shortcuts(step) in allowed]
    states = set(closure.within(columns).states)
    reached = [row for row in rows if closure.states[row["state"]] in states]
    fastest, fastest_reached = (max(float(row["ratio"]) for row in part) for part in (rows, reached))
    quickest, quickest_reached = (
        min(row["compile_seconds"] for row in part if row["ratio"] >= KEEP) for part in (rows, reached)
    )
    return {
        "steps": [closure.steps[column] for column in columns],
        "states": len(states),
        "throughput_regret": 1 - fastest_reached / fastest,
        "compile_time_regret": 1 - quickest / quickest_reached,
    }


def without_shortcuts(step: str) -> str:
    """Return a pass without the arguments that only make it quicker."""
    spec = Pipeline.parse(step).passes[0]
    return str(PassSpec(spec.name, tuple(pair for pair in spec.arguments if pair[0] not in SHORTCUTS)))


def table(spaces: Mapping[str, Any]) -> str:
    """Return the Markdown of ``docs/evidence/search.md``."""
    lines = [
        "| space | states | binaries | objective | the true best | throughput against -O3 | compile time against -O3 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, space in spaces.items():
        for objective, best in space["best"].items():
            build = f"`{best['pipeline'] or '(no pass)'}`, then level {best['opt_level']}"
            ratios = " | ".join(_ratio(best[key]) for key in ("throughput", "compile_time"))
            size = f"{space['states']} | {space['binaries']}"
            lines.append(f"| {name} | {size} | {objective.replace('_', ' ')} | {build} | {ratios} |")
    return "\n".join(lines)


def _ratio(document: Mapping[str, Any]) -> str:
    ends = document["interval"]
    return f"{document['ratio']:.3f}" + (f" [{ends[0]:.3f}, {ends[1]:.3f}]" if ends else "")


if __name__ == "__main__":
    main()
