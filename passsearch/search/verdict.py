"""The verdict on the winner of a search, as the result states it."""

import math
from typing import Any

import passsearch.results as results
from passsearch.core import Failure
from passsearch.measure import LEVEL
from passsearch.objectives import NO_IMPROVEMENT, Objective
from passsearch.results import StatedRatio
from passsearch.search.confirmation import Confirmation
from passsearch.search.records import Scored
from passsearch.search.scoring import Scoring
from passsearch.search.stated_ratio import stated


def verdict_of(
    scoring: Scoring, best: Scored, *, confirmation: Confirmation | Failure | None, interrupted: bool
) -> results.Verdict:
    """Return the verdict on the winner of a search."""
    objective, keep = scoring.objective, scoring.options.least_throughput
    search: dict[str, Any] = {
        "objective": objective.name,
        "objectives": tuple(each.name for each in scoring.options.objectives),
        "level": LEVEL,
    }
    read = scoring.gain(objective, best)
    if not isinstance(confirmation, Confirmation):
        reason = confirmation.reason if confirmation else _no_confirmation(scoring, best, interrupted=interrupted)
        failure = results.StatedFailure(**vars(confirmation)) if confirmation else None
        return results.Verdict(**search, ratio=read, reason=reason, failure=failure)
    ratio = objective.ratio(confirmation)
    shown = stated(ratio) if ratio else StatedRatio(read)
    noise = objective.floor(confirmation)
    improved = confirmation.improves(objective, keep_throughput=keep)
    return results.Verdict(
        **search,
        improved=improved,
        ratio=shown.ratio,
        interval=shown.interval,
        confirmed=ratio is not None,
        repetitions=confirmation.repetitions,
        processes=confirmation.processes,
        reproducible=confirmation.reproducible,
        same_binary=confirmation.same_binary,
        noise_floor=noise if math.isfinite(noise) else None,
        noise=confirmation.noise,
        sustained=confirmation.sustained,
        disagreement=confirmation.disagreement(objective),
        keep_throughput=keep,
        keeps_throughput=confirmation.keeps(objective, keep),
        seconds=round(confirmation.seconds, 1),
        reason="" if improved else _refusal(confirmation, objective, keep_throughput=keep),
    )


def _no_confirmation(scoring: Scoring, best: Scored, *, interrupted: bool) -> str:
    """Return why no fresh compile was made."""
    if scoring.options.repetitions < 1:
        return "no fresh compile was made (--confirm 0)"
    if interrupted or best is not scoring.baseline:
        return "no fresh compile was made"
    least = scoring.options.least_throughput
    return f"no candidate{f' with {least:g} of its throughput' if least else ''} is left beside the baseline"


def _refusal(confirmation: Confirmation, objective: Objective, *, keep_throughput: float) -> str:
    """Return the reason why a candidate is no improvement."""
    if objective.ratio(confirmation) is None:
        return objective.unread_reason
    if not confirmation.keeps(objective, keep_throughput):
        return f"it is not certain that it keeps {keep_throughput} of the throughput"
    if confirmation.same_binary and objective.is_equal_for_one_binary:
        return "the same binary as the baseline"
    if confirmation.disagreement(objective):
        return confirmation.disagreement(objective)
    return NO_IMPROVEMENT
