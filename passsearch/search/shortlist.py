"""The last candidates of a search, measured again side by side in new processes; the winner first."""

from collections.abc import Sequence
from dataclasses import replace

from passsearch.core import Failure
from passsearch.evaluate.evaluator import FINAL_PLAN, Built
from passsearch.measure import LEAST_GAIN, one_process_ratio, process_ratio
from passsearch.search.records import Scored
from passsearch.search.study import Search

SHORTLIST, QUICK = 5, 2
"""Candidates measured side by side, and how many of them for compiling fast at about the best throughput."""


def shortlist(search: Search) -> list[Scored]:
    """The best candidates measured again, side by side, except the baseline's own binary; the winner first."""
    assert search.baseline is not None
    contenders = _one_a_binary([each for each in search.ranked() if each.built.key != search.baseline.key])
    if not contenders or len(search.plan.objectives) > 1:
        return contenders[:SHORTLIST]
    same = [each for each in contenders if search.same(each.built)]
    chosen = _promising(search, [each for each in contenders if not search.same(each.built)])
    return _by_preference(search, [*_side_by_side(search, chosen), *same])


def _side_by_side(search: Search, chosen: list[Scored]) -> list[Scored]:
    """Measured again in new processes; as they were if that fails."""
    assert search.baseline is not None
    restored = [search.evaluator.restore(built) for built in (search.baseline, *(each.built for each in chosen))]
    folders = [str(each.folder) for each in restored if isinstance(each, Built)]
    if not chosen or len(folders) < len(restored):
        return chosen
    key = "shortlist:" + ";".join(each.built.key for each in chosen)
    timed = search.evaluator.time_fresh(key, folders, plan=replace(FINAL_PLAN, seed=search.plan.seed + 1))
    if isinstance(timed, Failure) or not timed["processes"]:
        return chosen
    return [_remeasured(each, timed["processes"], place=place) for place, each in enumerate(chosen, 1)]


def _promising(search: Search, contenders: list[Scored]) -> list[Scored]:
    """The best by the objective, and the fastest to compile among those within 2 % of the best."""
    if not contenders:
        return []
    objective = search.plan.objectives[0]
    best = search.gain(objective, contenders[0])
    near = [each for each in contenders if search.gain(objective, each) >= best * 0.98]
    quick = sorted(near, key=lambda each: each.compile_s)[:QUICK]
    rest = [each for each in contenders if each not in quick]
    return [*quick, *rest[: SHORTLIST - len(quick)]]


def _by_preference(search: Search, again: list[Scored]) -> list[Scored]:
    """The winner first: the best by the objective, or the one that compiles fastest where none is really better.

    A gain that some process does not see is not worth a loss: then the baseline's own binary by a quicker pipeline,
    which cannot lose, comes before candidates that read about the same.
    """
    admitted = [each for each in again if search.admissible(each)]
    if not admitted:
        return []
    objective = search.plan.objectives[0]
    best = max(admitted, key=lambda each: search.gain(objective, each))
    if objective.name in ("throughput", "latency"):
        ratios = {each.built.key: each.ratio.value for each in admitted if each.ratio}
        equal = [each for each in admitted if ratios[each.built.key] >= ratios[best.built.key] * (1 - LEAST_GAIN)]
        if not all(ratio > 1 + LEAST_GAIN for ratio in best.process_ratios):
            quicker = [each for each in admitted if each.compile_s < search.default_scored.compile_s]
            equal = [each for each in quicker if search.same(each.built)] or equal
        best = min(equal, key=lambda each: each.compile_s)
    return [best, *(each for each in admitted if each is not best)]


def _remeasured(scored: Scored, processes: Sequence[Sequence[Sequence[float]]], *, place: int) -> Scored:
    return replace(
        scored,
        ratio=process_ratio(processes, place),
        latency_s=tuple(value for process in processes for value in process[place]),
        baseline_latency_s=tuple(value for process in processes for value in process[0]),
        process_ratios=tuple(one_process_ratio(each[0], each[place]).value for each in processes),
    )


def _one_a_binary(ranked: Sequence[Scored]) -> list[Scored]:
    """Of candidates that are one binary the one that compiles fastest, in the place of the first."""
    best: dict[str, Scored] = {}
    for each in ranked:
        known = best.get(each.built.digest)
        best[each.built.digest] = each if known is None or each.compile_s < known.compile_s else known
    return list(best.values())
