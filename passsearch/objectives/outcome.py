"""What a verdict comes to, in one word."""

from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from passsearch.objectives.table import recorded_objective
from passsearch.results import Outcome

if TYPE_CHECKING:
    from passsearch.results import Verdict

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
IMPROVED, NO_GAIN, UNDECIDED, UNCONFIRMED = OUTCOMES
"""Outcomes of a run: a gain is confirmed; a gain worth having is excluded; the measurements leave it open or contradict
each other; nothing was confirmed."""

EQUAL = 0.05
"""Largest gain that "no gain" may overlook. An interval that reaches further decides nothing."""

NO_IMPROVEMENT = "no significant improvement"
"""Reason of a verdict that has no other one."""


def verdict_outcome(verdict: "Verdict") -> Outcome:
    """Return one of ``OUTCOMES`` for the verdict of a result; earlier versions did not store it."""
    if not verdict.confirmed:
        return UNCONFIRMED
    if verdict.improved:
        return IMPROVED
    if verdict.disagreement:
        return UNDECIDED
    is_same = verdict.same_binary and recorded_objective(verdict).is_equal_for_one_binary
    if is_same or verdict.keeps_throughput is False:
        return NO_GAIN
    if not verdict.interval:
        return UNCONFIRMED
    high = verdict.interval[1]
    return UNDECIDED if high is None or high > 1 + EQUAL else NO_GAIN


def with_outcome(verdict: "Verdict") -> "Verdict":
    """Return a verdict with its outcome; the reason of an undecided one says what is undecided."""
    outcome, title = verdict_outcome(verdict), recorded_objective(verdict).title
    if outcome == UNDECIDED and verdict.reason == NO_IMPROVEMENT:
        reason = f"undecided: a gain in {title} is possible, and none is certain"
        return replace(verdict, outcome=outcome, reason=reason)
    return replace(verdict, outcome=outcome)
