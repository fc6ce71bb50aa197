"""What a run recommends: not what was measured to be slower than the baseline or than a sequence beside it.

Where the readings contradict each other and nothing is certain, it is the best sequence of the catalog.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from passsearch.core import MACHINE_FAULTS, Failure
from passsearch.measure import Ratio
from passsearch.search.best_sequence import BestSequence
from passsearch.search.confirmation import Confirmation
from passsearch.search.estimators import LEAST_SPEED
from passsearch.search.records import Scored
from passsearch.search.scoring import FAR_FASTER, Scoring

OPEN = MACHINE_FAULTS | {"timeout"}
"""Kinds of failures that say nothing about the candidate."""

Confirmed: TypeAlias = Confirmation | Failure | None

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rejected:
    """The winner of a search that is not recommended.

    Attributes:
        scored: The candidate.
        ratio: Its confirmed gain over the baseline by the objective; ``None`` where nothing was confirmed.
        reason: The reason in words.
    """

    scored: Scored
    ratio: Ratio | None
    reason: str


@dataclass(frozen=True)
class Recommendation:
    """What a run recommends.

    Attributes:
        best: The candidate, or the baseline.
        confirmation: What was measured of it; of ``rejected`` where ``best`` is the baseline.
        rejected: The winner of the search where another one is recommended.
    """

    best: Scored
    confirmation: Confirmed
    rejected: Rejected | None = None


def recommend(
    winner: Scored,
    confirmation: Confirmed,
    *,
    scoring: Scoring,
    sequence: BestSequence | None,
    confirm_again: Callable[[Scored], Confirmed],
) -> Recommendation:
    """Return the winner, or what was measured to be better: the best sequence of the catalog, or the baseline.

    Args:
        winner: The winner of the search.
        confirmation: What confirmed it, or why nothing did.
        scoring: Gains over the baseline.
        sequence: The best sequence of the catalog.
        confirm_again: Confirms another candidate.
    """
    rival = None if sequence is None or sequence.is_same_binary_as(winner) else sequence.scored
    # A Pareto front has no winner, and without a confirmation on purpose the search's own measurement counts.
    if (len(scoring.options.objectives) > 1 and not _is_ruled_out(confirmation)) or confirmation is None:
        return Recommendation(winner, confirmation)
    if isinstance(confirmation, Failure):
        return _after_failure(winner, confirmation, scoring=scoring, rival=rival, confirm_again=confirm_again)
    objective, rejected = scoring.objective, None
    timed = confirmation.over_sequence
    if rival is not None and timed is not None and timed.gains.is_slower:
        again = confirm_again(rival)
        if not _is_ruled_out(again):
            text = f"{timed.gain.value:.3g} times the throughput of {rival.candidate.name} of the catalog, beside it"
            rejected = Rejected(winner, objective.ratio(confirmation), text)
            instead = confirmation.of_sequence(digest=rival.built.digest, compile_s=rival.compile_s)
            winner, confirmation = rival, again if isinstance(again, Confirmation) else instead
    if _is_worse(confirmation, scoring):
        rejected = Rejected(winner, objective.ratio(confirmation), _why_worse(confirmation, scoring))
        if sequence is not None and (kept := _kept(sequence, winner, confirmation, scoring)) is not None:
            rejected = None if sequence.is_same_binary_as(winner) else rejected
            winner, confirmation = sequence.scored, kept
        else:
            winner = scoring.baseline
    if rejected is not None:
        _log.info("%s is recommended instead of %s: %s", winner.candidate, rejected.scored.candidate, rejected.reason)
    return Recommendation(winner, confirmation, rejected)


def _after_failure(
    winner: Scored,
    failure: Failure,
    *,
    scoring: Scoring,
    rival: Scored | None,
    confirm_again: Callable[[Scored], Confirmed],
) -> Recommendation:
    """Return the best sequence, which many networks have proven, where the winner could not be confirmed."""
    rejected = Rejected(winner, None, f"not confirmed: {failure.reason}")
    if not _is_ruled_out(failure):
        # A sequence is the best one by speed only.
        if rival is None or not scoring.objective.is_speed:
            return Recommendation(winner, failure)
        return Recommendation(rival, failure, rejected)
    if rival is None:
        return Recommendation(scoring.baseline, failure, rejected)
    again = confirm_again(rival)
    if _is_ruled_out(again) or (isinstance(again, Confirmation) and _is_worse(again, scoring)):
        return Recommendation(scoring.baseline, again, rejected)
    return Recommendation(rival, again, rejected)


def _kept(sequence: BestSequence, winner: Scored, confirmation: Confirmation, scoring: Scoring) -> Confirmation | None:
    """Return what was measured of the best sequence where it stays though the winner is rejected; else ``None``.

    It stays if the search read it far faster than the baseline and no reading certainly denies that: on a busy machine
    a few processes say nothing for certain, and it is what a user has without a search.
    """
    own = confirmation
    if not sequence.is_same_binary_as(winner):
        if confirmation.over_sequence is None:
            return None
        own = confirmation.of_sequence(digest=sequence.scored.built.digest, compile_s=sequence.scored.compile_s)
    is_far = scoring.objective.is_speed and scoring.gain(scoring.objective, sequence.scored) > FAR_FASTER
    estimates = own.estimates
    return own if is_far and estimates is not None and not estimates.is_certainly_slower else None


def _is_ruled_out(confirmation: Confirmed) -> bool:
    """Return whether a candidate itself failed when it was confirmed, for example by wrong outputs."""
    return isinstance(confirmation, Failure) and confirmation.kind not in OPEN


def _is_worse(confirmation: Confirmation, scoring: Scoring) -> bool:
    """Return whether a candidate was measured to be worse than the baseline, or to lose too much throughput."""
    objective, ratio = scoring.objective, scoring.objective.ratio(confirmation)
    if confirmation.same_binary and objective.is_equal_for_one_binary:
        return False
    if objective.is_speed:
        return confirmation.estimates is not None and confirmation.estimates.is_slower
    if confirmation.loses_throughput(scoring.options.least_throughput):
        return True
    return ratio is not None and (ratio.value < LEAST_SPEED or ratio.interval.high < 1)


def _why_worse(confirmation: Confirmation, scoring: Scoring) -> str:
    objective = scoring.objective
    if not objective.is_speed and confirmation.loses_throughput(scoring.options.least_throughput):
        return f"less than {scoring.options.least_throughput:g} of the throughput of {_baseline(scoring)}"
    return confirmation.disagreement(objective) or f"no better than {_baseline(scoring)} in {objective.title}"


def _baseline(scoring: Scoring) -> str:
    return scoring.baseline.candidate.name or "the baseline"
