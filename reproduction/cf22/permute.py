"""Several orders of each of the paper's selections, at both build levels: the paper reports the best of its orders.

A build spends most of its time on evaluating constants (level 3) or on TVM's simplification (level 0). To find the best
order, its passes are therefore written out behind the selection in their quick forms, and lowered only. Orders that
meet in one IR are built once, in a fraction of the time. The best order is then built as TVM does it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from candidates import TOO_SLOW, build, one_process_row
from selections import by_passes, orders

from passsearch.core import BuildOptions, Candidate, Failure, Pipeline
from passsearch.evaluate import WorkerEvaluator
from passsearch.search import analyze_network, with_prerequisites
from passsearch.studies import ComparisonOptions, Side, compare_candidates

LEVELS = (0, 3)
"""Levels of TVM's own build after a selection: mandatory lowering only, and TVM's default pipeline."""


SIMPLIFICATION = Pipeline.parse(
    "SimplifyInference,SimplifyExpr{look_first=true},FlattenAtrousConv,SimplifyExprPostAlterOp{look_first=true}"
)
"""The passes of TVM's build at level 0 that lowering leaves out, and those between them."""


@dataclass(frozen=True)
class Order:
    """One order of a selection at one build level.

    Attributes:
        candidate: The order as the paper builds it.
        stand_in: What is timed in its place.
    """

    candidate: Candidate
    stand_in: Candidate


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
        paper: The paper's selections; those with the same passes, as AS-0 and AS-1, count as one.
        count: Number of orders of each.
        processes: Timing processes of the best ones.
        progress: Callback; gets the current step in words.
    """
    rows: dict[str, list[dict[str, Any]]] = {}
    best: list[Candidate] = []
    timed: dict[str, dict[str, Any]] = {}
    for selection in by_passes(paper):
        variants, name = both_levels(evaluator, selection, count=count), selection[0].name
        progress(f"{name}: {len(variants)} orders and build levels")
        rows[name] = [row_of(evaluator, order, timed=timed) for order in variants]
        best += best_of(variants, rows[name])
    document = compare_candidates(
        [Side(evaluator, [evaluator.session.dialect.baseline, *best])],
        ComparisonOptions(processes=processes),
        progress=lambda text, *_: progress(text),
    ).to_json()
    measured = {row["name"]: row for row in document["rows"]}
    keys = ("baseline", "noise_floor", "processes")
    return {
        **{key: document[key] for key in keys},
        "orders": count,
        "levels": LEVELS,
        "rows": rows,
        "best": measured,
        "stand_ins": {candidate.name: same_binary(evaluator, candidate) for candidate in best},
    }


def both_levels(evaluator: WorkerEvaluator, selection: Sequence[Candidate], *, count: int) -> list[Order]:
    """Return the orders of a selection, each with the passes it needs, at both build levels."""
    session = evaluator.session
    analysis = analyze_network(session, evaluator.network.summary)
    ordered = [with_prerequisites(session, analysis, each) for each in orders(selection, count=count)]
    candidates = [replace(each, build=BuildOptions(opt_level=level)) for level in LEVELS for each in ordered]
    return [Order(candidate, stand_in(evaluator, candidate)) for candidate in candidates]


def stand_in(evaluator: WorkerEvaluator, candidate: Candidate) -> Candidate:
    """Return the candidate whose kernels are those of the candidate's build, with the build's passes written out."""
    session, level = evaluator.session, candidate.build.opt_level
    passes = session.catalog.sequence(f"O{level}-passes").pipeline.passes if level else SIMPLIFICATION.passes
    return Candidate(Pipeline((*candidate.pipeline.passes, *passes)), session.dialect.builds[0])


def same_binary(evaluator: WorkerEvaluator, candidate: Candidate) -> bool:
    """Return whether a candidate and its stand-in are one binary."""
    built = [build(evaluator, each) for each in (candidate, stand_in(evaluator, candidate))]
    digests = {None if isinstance(each, Failure) else each.digest for each in built}
    return len(digests) == 1 and None not in digests


def row_of(evaluator: WorkerEvaluator, order: Order, *, timed: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the row of one order at one level; a binary that is timed already takes that time.

    Args:
        evaluator: Evaluates the candidate.
        order: The order and the level.
        timed: Rows by binary; gets the new one.
    """
    own = {"steps": [str(step) for step in order.candidate.pipeline.passes], "level": order.candidate.build.opt_level}
    built = build(evaluator, order.stand_in)
    if isinstance(built, Failure):
        return {**own, "failure": built.to_json()}
    if built.digest not in timed:
        timed[built.digest] = one_process_row(evaluator, order.stand_in)
    row = timed[built.digest]
    measured = {"failure": row["failure"]} if "failure" in row else {"ratio": row["ratio"], "binary": row["binary"]}
    return {**own, **measured}


def best_of(variants: Iterable[Order], rows: Iterable[Mapping[str, Any]]) -> list[Candidate]:
    """Return the order and level with the highest throughput; none where all fail or are far slower than -O3."""
    ratios = {
        order.candidate: row["ratio"]["ratio"] for order, row in zip(variants, rows, strict=True) if "ratio" in row
    }
    best = max(ratios, key=lambda candidate: ratios[candidate], default=None)
    if best is None or ratios[best] < TOO_SLOW:
        return []
    # The suffix keeps the comparison from taking it for the catalog's sequence of that name.
    return [replace(best, name=f"{best.name} best")]
