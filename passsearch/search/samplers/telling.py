"""What a sampler is told of a candidate, beside the log of how many times better than the baseline it is."""

import math

REJECTED = -10.0
"""The value of a failed candidate; the log-ratios of working ones lie within about ±5."""
GAIN, MARGIN = "gain", "margin"
"""Attributes of trials where throughput is to be kept: the value before it was lowered for what was lost, and the log
of the throughput as a multiple of the least. A failure has neither."""


def keeping(gain: float, *, ratio: float, least: float) -> tuple[float, dict[str, float]]:
    """Value and attributes of a candidate that worked, where throughput is to be kept.

    Args:
        gain: Log of how many times better than the baseline it is.
        ratio: Its throughput as a multiple of the baseline's.
        least: What ``ratio`` must be.
    """
    margin = math.log(ratio / least)
    return gain if margin >= 0 else gain + REJECTED / 2, {GAIN: gain, MARGIN: margin}
