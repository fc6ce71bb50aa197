"""Several orders of each of the paper's selections, at both build levels: the paper reports the best of its orders."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from candidates import TOO_SLOW, build, one_process_row
from selections import orders

from passsearch.core import BuildOptions, Candidate, Failure
from passsearch.evaluate import WorkerEvaluator
from passsearch.search import ComparisonOptions, Side, analyze_network, compare_candidates, with_prerequisites

LEVELS = (0, 3)
"""Levels of TVM's own build after a selection: mandatory lowering only, and TVM's default pipeline."""


def permute(
    evaluator: WorkerEvaluator,
    paper: Sequence[Candidate],
    *,
    count: int,
    processes: int,
    progress: Callable[[str], None],
) -> dict[str, Any]:
    """Return the rows of all orders, and the best order of each selection measured once more, interleaved.

    Every binary is timed once in one process beside -O3, so the best of many is lucky; the interleaved measurement of
    the best ones has other samples.

    Args:
        evaluator: Evaluates the candidates.
        paper: The paper's selections.
        count: Number of orders of each.
        processes: Timing processes of the best ones.
        progress: Callback; gets the current step in words.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    best: list[Candidate] = []
    timed: dict[str, dict[str, Any]] = {}
    for selection in paper:
        candidates = variants(evaluator, selection, count=count)
        progress(f"{selection.name}: {len(candidates)} orders and build levels")
        rows[selection.name] = [row_of(evaluator, candidate, timed=timed) for candidate in candidates]
        best += best_of(candidates, rows[selection.name])
    document = compare_candidates(
        [Side(evaluator, [evaluator.session.dialect.baseline, *best])],
        ComparisonOptions(processes=processes),
        progress=lambda text, *_: progress(text),
    )
    measured = {row["name"]: row for row in document["rows"]}
    keys = ("baseline", "noise_floor", "processes")
    return {**{key: document[key] for key in keys}, "orders": count, "levels": LEVELS, "rows": rows, "best": measured}


def variants(evaluator: WorkerEvaluator, selection: Candidate, *, count: int) -> list[Candidate]:
    """Return the orders of a selection, each with the passes it needs and at both build levels."""
    session = evaluator.session
    analysis = analyze_network(session, evaluator.network.summary)
    ordered = [with_prerequisites(session, analysis, each) for each in orders(selection, count=count)]
    return [replace(each, build=BuildOptions(opt_level=level)) for level in LEVELS for each in ordered]


def row_of(evaluator: WorkerEvaluator, candidate: Candidate, *, timed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of one order at one level; a binary that is timed already takes that time.

    Args:
        evaluator: Evaluates the candidate.
        candidate: The order and the level.
        timed: Rows by binary; gets the new one.
    """
    own = {"steps": [str(step) for step in candidate.pipeline.passes], "level": candidate.build.opt_level}
    built = build(evaluator, candidate)
    if isinstance(built, Failure):
        return {**own, "failure": built.to_json()}
    compile_s = evaluator.applier.apply_seconds(candidate.pipeline) + built.seconds
    if built.digest not in timed:
        timed[built.digest] = one_process_row(evaluator, candidate)
    row = timed[built.digest]
    measured = {"failure": row["failure"]} if "failure" in row else {"ratio": row["ratio"], "binary": row["binary"]}
    return {**own, **measured, "compile_s": compile_s}


def best_of(candidates: Sequence[Candidate], rows: Sequence[dict[str, Any]]) -> list[Candidate]:
    """Return the order and level with the highest throughput; none where all fail or are far slower than -O3."""
    ratios = {
        candidate: row["ratio"]["ratio"] for candidate, row in zip(candidates, rows, strict=True) if "ratio" in row
    }
    best = max(ratios, key=lambda candidate: ratios[candidate], default=None)
    if best is None or ratios[best] < TOO_SLOW:
        return []
    # The suffix keeps the comparison from taking it for the catalog's sequence of that name.
    return [replace(best, name=f"{best.name} best")]
