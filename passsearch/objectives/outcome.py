"""What a verdict comes to, in one word, from the form that results store."""

from collections.abc import Mapping
from typing import Any

from passsearch.objectives.table import recorded_objective

IMPROVED, NO_GAIN, UNDECIDED, UNCONFIRMED = OUTCOMES = ("improved", "no gain", "undecided", "unconfirmed")
"""Outcomes of a run: a gain is confirmed; a gain worth having is excluded; the measurements leave it open or contradict
each other; nothing was confirmed."""

EQUAL = 0.05
"""Largest gain that "no gain" may overlook. An interval that reaches further decides nothing."""


def verdict_outcome(verdict: Mapping[str, Any]) -> str:
    """Return one of ``OUTCOMES`` for the verdict of a result; earlier versions did not store it.

    Args:
        verdict: The object ``verdict`` of a result.
    """
    if not verdict.get("confirmed"):
        return UNCONFIRMED
    if verdict.get("improved"):
        return IMPROVED
    if verdict.get("disagreement"):
        return UNDECIDED
    is_same = verdict.get("same_binary") and recorded_objective(verdict).is_equal_for_one_binary
    if is_same or verdict.get("keeps_throughput") is False:
        return NO_GAIN
    interval = verdict.get("interval")
    if not interval:
        return UNCONFIRMED
    return UNDECIDED if interval[1] is None or interval[1] > 1 + EQUAL else NO_GAIN
