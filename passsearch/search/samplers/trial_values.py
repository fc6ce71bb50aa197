"""Values and attributes of an Optuna trial, beside the log of how many times better than the baseline it is."""

import math

REJECTED = -10.0
"""Value of a failed candidate; the log-ratios of working ones lie within about ±5."""

GAIN, MARGIN = "gain", "margin"
"""Attributes of trials under a throughput constraint: the value before it was lowered for lost throughput, and the log
of the throughput as a multiple of the least that is allowed. A failure has neither."""


def values_under_constraint(gain: float, *, ratio: float, least: float) -> tuple[float, dict[str, float]]:
    """Return value and attributes of a candidate that worked, where throughput must be kept.

    Args:
        gain: Log of how many times better than the baseline it is.
        ratio: Its throughput as a multiple of the baseline's.
        least: Smallest ``ratio`` that is allowed.
    """
    margin = math.log(ratio / least)
    # Half of the value of a failure: worse than every candidate that keeps throughput, better than one that fails.
    return gain if margin >= 0 else gain + REJECTED / 2, {GAIN: gain, MARGIN: margin}
