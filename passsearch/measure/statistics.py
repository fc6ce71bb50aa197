"""Statistics of paired samples. Only ratios within one round are compared: a shared drift cancels there."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from passsearch.core import Interval

LEVEL = 0.95
LEAST_GAIN = 0.01
"""No gain below 1 % is called an improvement, however certain."""


@dataclass(frozen=True)
class Ratio:
    """How many times better than the baseline: > 1 is better, with an interval at ``LEVEL``."""

    value: float
    interval: Interval


def log_ratios(baseline: Sequence[float], candidate: Sequence[float]) -> list[float]:
    """Natural log of baseline over candidate per round; the candidate's rounds may end early."""
    return [math.log(one / other) for one, other in zip(baseline, candidate, strict=False)]


def paired_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> Ratio:
    """Median ratio over the rounds of one process, with a distribution-free interval of the median.

    The interval holds for this process only; between processes see ``clustered_ratio``. Source: order-statistic
    interval of the median (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
    """
    values = np.sort(log_ratios(baseline, candidate))
    rank = int(stats.binom.ppf((1 - LEVEL) / 2, len(values), 0.5))
    low, high = values[max(rank - 1, 0)], values[min(len(values) - rank, len(values) - 1)]
    return _ratio(float(np.median(values)), float(low), float(high))


def clustered_ratio(medians: Sequence[float]) -> Ratio:
    """Ratio from one log-ratio per independent repetition (fresh compile, fresh process): Student's t interval.

    The repetition is the level where the variance lives (Kalibera and Jones, Rigorous benchmarking in reasonable
    time, ISMM 2013), so rounds within a process only sharpen that repetition's value.
    """
    values = np.asarray(medians, dtype=float)
    centre = float(values.mean())
    if len(values) < 2:
        return _ratio(centre, -np.inf, np.inf)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1) * stats.sem(values))
    return _ratio(centre, centre - half, centre + half)


def median_interval(samples: Sequence[float]) -> Interval:
    """Distribution-free interval of the median of one sample."""
    values = np.sort(np.asarray(samples, dtype=float))
    rank = int(stats.binom.ppf((1 - LEVEL) / 2, len(values), 0.5))
    return Interval(float(values[max(rank - 1, 0)]), float(values[min(len(values) - rank, len(values) - 1)]))


def noise_floor(twin: Ratio) -> float:
    """The largest gain or loss that the baseline against its own twin cannot exclude."""
    return max(twin.interval.high - 1, 1 / max(twin.interval.low, 1e-12) - 1, 0.0)


def improved(ratio: Ratio, *, floor: float) -> bool:
    """Whether the interval's lower end clears both the least gain and the noise floor."""
    return ratio.interval.low > 1 + max(LEAST_GAIN, floor)


def _ratio(centre: float, low: float, high: float) -> Ratio:
    return Ratio(float(np.exp(centre)), Interval(float(np.exp(low)), float(np.exp(high))))
