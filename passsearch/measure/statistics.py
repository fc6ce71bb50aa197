"""Statistics of interleaved samples.

A disturbance that lasts longer than a round affects all artifacts of a process, so only ratios within a process count.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TypeAlias

import numpy as np
from scipy.special import stdtrit

from passsearch.core import Interval, Json

SamplePair: TypeAlias = tuple[Sequence[float], Sequence[float]]
"""Samples of a reference and of an artifact from one process, in seconds per inference."""

LAST_SHARE = 3
"""One of so many rounds belongs to the end of a process."""

MOST_FLOOR = 1.0
"""Largest noise floor that is an estimate. The interval of a larger one comes from too few processes: Student's t of
two of them once gave 2.5e10 %."""

LEVEL = 0.95
"""Confidence level of intervals, unless a caller says otherwise."""

MIN_GAIN = 0.01
"""Smallest gain that may be called an improvement, however certain a smaller one is."""


@dataclass(frozen=True)
class Ratio:
    """Ratio of a candidate to the baseline with its interval; a value above 1 is better.

    Attributes:
        value: The ratio.
        interval: Confidence interval, at ``LEVEL`` unless said otherwise.
    """

    value: float
    interval: Interval

    def to_json(self) -> dict[str, Json]:
        """Return the form of results; JSON has no infinity, so the interval of too few repetitions is ``null``."""
        is_bounded = self.interval.low > 0 and math.isfinite(self.interval.high)
        return {"ratio": self.value, "interval": self.interval.to_json() if is_bounded else None}

    def __format__(self, spec: str) -> str:
        """Return the ratio with its interval, each number by the same format: ``1.02 [1.00, 1.04]`` by ``.2f``."""
        return f"{self.value:{spec}} [{self.interval.low:{spec}}, {self.interval.high:{spec}}]"


def log_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return the log-ratio of the fastest samples of two artifacts in one process; positive if the candidate is faster.

    Both artifacts were visited in the same rounds, so both met the machine's best moments and the best stack depths.
    Rounds after a candidate left the race do not count. From process to process, ratios of the fastest samples vary
    half to two thirds as much as medians of the rounds' ratios (docs/evidence/measurement.md).
    """
    rounds = min(len(baseline), len(candidate))
    return math.log(min(baseline[:rounds]) / min(candidate[:rounds]))


def log_ratio_of_medians(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return the log-ratio of the median samples of two artifacts in one process, an estimate beside ``log_ratio``."""
    return math.log(median(baseline) / median(candidate))


def log_ratio_at_end(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Return the log-ratio of the fastest samples of the last third of the rounds.

    A kernel that is fast in its first calls only has a large ``log_ratio`` and a small one at the end.
    """
    rounds = min(len(baseline), len(candidate))
    first = rounds - max(1, rounds // LAST_SHARE)
    return math.log(min(baseline[first:rounds]) / min(candidate[first:rounds]))


def one_process_ratio(baseline: Sequence[float], candidate: Sequence[float]) -> Ratio:
    """Return the ratio in one process, with an unlimited interval: one process says nothing about the next."""
    return Ratio(math.exp(log_ratio(baseline, candidate)), Interval(0.0, math.inf))


def process_ratio(pairs: Sequence[SamplePair], *, level: float = LEVEL) -> Ratio:
    """Return the ratio of one artifact to another over several processes that all timed the same two binaries.

    The memory layout of a process slows an artifact in some processes, so the process is the repetition.

    Args:
        pairs: Samples of the reference and of the artifact, by process.
        level: Confidence level of the interval.
    """
    return mean_ratio([log_ratio(reference, artifact) for reference, artifact in pairs], level=level)


def ratio_of_medians(pairs: Sequence[SamplePair], *, level: float = LEVEL) -> Ratio:
    """Return the ratio of the processes' median samples, an estimate beside that of their fastest ones.

    Args:
        pairs: Samples of the reference and of the artifact, by process.
        level: Confidence level of the interval.
    """
    return mean_ratio([log_ratio_of_medians(*pair) for pair in pairs], level=level)


def cf22_ratio(pairs: Sequence[SamplePair]) -> Ratio:
    """Return the ratio by the paper's protocol: of means, without values beyond three standard deviations.

    The interval is unlimited. Runs in sequence share every drift of the machine, so their scatter says nothing about
    another measurement. Source: Verma et al., CF'22, section 4.

    Args:
        pairs: Samples of the reference and of the artifact, by process.
    """
    reference, artifact = (
        fmean(_mean_without_outliers(pair[role], deviations=3.0) for pair in pairs) for role in (0, 1)
    )
    return Ratio(reference / artifact, Interval(0.0, math.inf))


def _mean_without_outliers(samples: Sequence[float], *, deviations: float) -> float:
    """Return the mean of the samples within this many standard deviations of the mean of all."""
    values = np.asarray(samples, dtype=float)
    return float(values[np.abs(values - values.mean()) <= deviations * values.std()].mean())


def mean_ratio(values: Sequence[float], *, level: float = LEVEL) -> Ratio:
    """Return the mean of log-ratios as a ratio, with Student's t interval; one value has an unlimited interval.

    Args:
        values: One log-ratio per independent repetition.
        level: Confidence level of the interval.
    """
    centre, interval = mean_interval(values, level=level)
    return _ratio(centre, low=interval.low, high=interval.high)


def mean_interval(values: Sequence[float], *, level: float = LEVEL) -> tuple[float, Interval]:
    """Return the mean with Student's t interval; that of one value is unlimited.

    Args:
        values: One value per independent repetition.
        level: Confidence level of the interval.
    """
    array = np.asarray(values, dtype=float)
    mean = float(array.mean())
    if len(array) < 2:
        return mean, Interval(-math.inf, math.inf)
    half = _student((1 + level) / 2, len(array) - 1) * float(array.std(ddof=1)) / math.sqrt(len(array))
    return mean, Interval(mean - half, mean + half)


def next_value_interval(
    values: Sequence[float], *, level: float = LEVEL, other_deviation: float = 0.0
) -> tuple[float, Interval]:
    """Return the mean with the interval that holds the next value; that of one value is unlimited.

    Source: prediction interval of a normal sample (Hahn and Meeker, Statistical Intervals, 1991, chapter 4).

    Args:
        values: One value per independent repetition.
        level: Probability that the interval holds the value of one more repetition.
        other_deviation: Standard deviation of what sets the next value apart from all of these.
    """
    mean, interval = mean_interval(values, level=level)
    if len(values) < 2:
        return mean, interval
    # The next value differs from the mean by its own deviation too.
    own = (interval.high - mean) * math.sqrt(len(values) + 1)
    half = math.hypot(own, _student((1 + level) / 2, len(values) - 1) * other_deviation)
    return mean, Interval(mean - half, mean + half)


def _student(share: float, degrees: int) -> float:
    """Return the quantile of Student's t distribution."""
    # `scipy.stats` calls the same function, and takes half a second more to import.
    return float(stdtrit(degrees, share))


def level_of_looks(looks: int, *, level: float = LEVEL) -> float:
    """Return the level of each interval, so that all intervals of so many looks hold together at ``level``.

    Measuring may then end at any look, for any reason. Source: repeated confidence intervals (Jennison and Turnbull,
    Group Sequential Methods with Applications to Clinical Trials, 2000, chapter 9), with Bonferroni's correction.
    """
    return 1 - (1 - level) / looks


def race_critical_values(rounds: int, *, artifacts: int, level: float = 0.99, least: int = 2) -> tuple[float, ...]:
    """Return critical values of Student's t by number of rounds, for a race that is judged after every round.

    The values are corrected for the number of judgements and of artifacts (Bonferroni): a candidate as good as the best
    leaves a whole race with a probability below ``1 - level``. They are infinite for fewer than ``least`` rounds.
    """
    share = (1 - level) / max(1, (rounds - least + 1) * (artifacts - 1))
    return tuple(-_student(share, count - 1) if count >= least else math.inf for count in range(rounds + 1))


def noise_floor(twin: Ratio) -> float:
    """Return the largest gain or loss that the comparison of a build with its twin cannot exclude.

    It is infinite where the interval is too wide to be an estimate (``MOST_FLOOR``).
    """
    floor = max(twin.interval.high - 1, 1 / max(twin.interval.low, 1e-12) - 1, 0.0)
    return floor if floor <= MOST_FLOOR else math.inf


def is_improvement(ratio: Ratio, *, floor: float) -> bool:
    """Return whether the interval's lower end exceeds both the least gain and the noise floor."""
    return ratio.interval.low > 1 + max(MIN_GAIN, floor)


def _ratio(centre: float, *, low: float, high: float) -> Ratio:
    return Ratio(float(np.exp(centre)), Interval(float(np.exp(low)), float(np.exp(high))))
