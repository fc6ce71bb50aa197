"""Statistics of interleaved samples: what disturbs a process for longer than a round disturbs all its artifacts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import stats

from passsearch.core import Interval

LEVEL = 0.95
LEAST_GAIN = 0.01
"""No gain below 1 % is called an improvement, however certain."""


@dataclass(frozen=True)
class Ratio:
    """How many times better than the baseline: > 1 is better, with an interval (at ``LEVEL`` unless said)."""

    value: float
    interval: Interval


def log_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Log of how many times faster the candidate is in one process: by the fastest sample of either.

    Both were visited in the same rounds, so both met the machine's best moments, and the best places on the stack; the
    rounds after a candidate left are not looked at. Ratios of the fastest of interleaved samples vary half to two
    thirds as much from process to process as medians of the rounds' ratios (``benchmarks/stack_depth.py``).
    """
    rounds = min(len(baseline), len(candidate))
    return math.log(min(baseline[:rounds]) / min(candidate[:rounds]))


def one_process_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> Ratio:
    """Ratio from one process. It has no interval: one process says nothing of the next."""
    return Ratio(math.exp(log_ratio(baseline, candidate)), Interval(0.0, math.inf))


def process_ratio(
    processes: Sequence[Sequence[Sequence[float]]], place: int, *, reference: int = 0, level: float = LEVEL
) -> Ratio:
    """Ratio of one artifact to another over several processes, each of which timed one binary of either.

    Where a process's memory comes to lie slows an artifact in some processes and not in most, so the process is the
    repetition and the median its summary: the interval supposes nothing of how processes differ.

    Args:
        processes: By process, the samples of every artifact.
        place: Which artifact.
        reference: What it is compared with; 0 is the baseline.
        level: Of the interval.
    """
    return median_ratio([log_ratio(each[reference], each[place]) for each in processes], level=level)


def median_ratio(values: Sequence[float], *, level: float = LEVEL) -> Ratio:
    """Ratio from one log-ratio per independent repetition: their median and its distribution-free interval.

    With fewer than ``least_repetitions`` no interval of the median has the level; its ends are then 0 and infinity.
    """
    enough = len(values) >= least_repetitions(level)
    interval = median_interval(values, level=level) if enough else Interval(-np.inf, np.inf)
    return _ratio(float(np.median(values)), low=interval.low, high=interval.high)


def cf22_ratio(processes: Sequence[Sequence[Sequence[float]]], place: int, *, reference: int = 0) -> Ratio:
    """Ratio by the paper's protocol, of means without what lies beyond three standard deviations; it has no interval.

    Source: Verma et al., CF'22, section 4. Runs in a row share every drift of the machine, so their scatter says
    nothing of how another measurement would come out.
    """
    means = [fmean(_within(process[at], deviations=3.0) for process in processes) for at in (reference, place)]
    return Ratio(means[0] / means[1], Interval(0.0, math.inf))


def _within(samples: Sequence[float], *, deviations: float) -> float:
    """Mean of the samples within so many standard deviations of their mean."""
    values = np.asarray(samples, dtype=float)
    return float(values[np.abs(values - values.mean()) <= deviations * values.std()].mean())


def least_repetitions(level: float = LEVEL) -> int:
    """Fewest values whose smallest and largest enclose the median at this level: n of them do at 1 - 2 / 2**n."""
    return math.ceil(1 - math.log2(1 - level))


def mean_ratio(values: Sequence[float]) -> Ratio:
    """Ratio from one log-ratio per independent repetition: their mean and Student's t interval.

    For few repetitions of much the same quality, such as compile times.
    """
    logs = np.asarray(values, dtype=float)
    centre = float(logs.mean())
    if len(logs) < 2:
        return _ratio(centre, low=-np.inf, high=np.inf)
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(logs) - 1) * stats.sem(logs))
    return _ratio(centre, low=centre - half, high=centre + half)


def race_critical(rounds: int, *, artifacts: int, level: float = 0.99, least: int = 4) -> tuple[float, ...]:
    """Critical values of Student's t by number of rounds, for leaving a race that is looked at after every round.

    Corrected for the number of looks and of artifacts (Bonferroni), so that a candidate as good as the best leaves a
    whole race with probability below ``1 - level``. Infinite before ``least`` rounds.
    """
    share = (1 - level) / max(1, (rounds - least + 1) * (artifacts - 1))
    return tuple(float(stats.t.isf(share, count - 1)) if count >= least else math.inf for count in range(rounds + 1))


def median_interval(samples: Sequence[float], *, level: float = LEVEL) -> Interval:
    """Distribution-free interval of the median of one sample.

    Source: order statistics (Conover, Practical Nonparametric Statistics, 3rd ed., section 3.2).
    """
    values = np.sort(np.asarray(samples, dtype=float))
    rank = int(stats.binom.ppf((1 - level) / 2, len(values), 0.5))
    return Interval(float(values[max(rank - 1, 0)]), float(values[min(len(values) - rank, len(values) - 1)]))


def noise_floor(twin: Ratio) -> float:
    """The largest gain or loss that the baseline against its own twin cannot exclude."""
    return max(twin.interval.high - 1, 1 / max(twin.interval.low, 1e-12) - 1, 0.0)


def improved(ratio: Ratio, *, floor: float) -> bool:
    """Whether the interval's lower end clears both the least gain and the noise floor."""
    return ratio.interval.low > 1 + max(LEAST_GAIN, floor)


def _ratio(centre: float, *, low: float, high: float) -> Ratio:
    return Ratio(float(np.exp(centre)), Interval(float(np.exp(low)), float(np.exp(high))))
