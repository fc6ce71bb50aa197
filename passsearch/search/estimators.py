"""Several estimates of one ratio, and what they say against each other.

A ratio is read by the fastest runs of a process, because disturbances only add time. That hides what is not a
disturbance: a kernel that is fast in its first calls, or only sometimes, has fast runs and is slow in use.
"""

import math
from dataclasses import dataclass

from passsearch.measure import Ratio

SUPPORT = 0.5
"""Least share of the gain, on a logarithmic scale, that another estimate must see of it."""

DISTURBED = math.log(1.25)
"""Log-ratio that a run of some seconds may lose in addition: other work hits it as a whole."""

LEAST_SPEED, LEAST_MEDIAN = 0.99, 0.95
"""Ratios below which a candidate counts as slower, however uncertain that is: by fastest runs, and by others."""

FAR_BEYOND, LEAST_FAR = 5.0, 2.0
"""Number of times by which, in every process, the log-ratio of an effect far beyond the noise exceeds the largest
difference that noise made, and the least such effect, as a ratio."""


@dataclass(frozen=True)
class Estimates:
    """One ratio by several estimators; above 1 is better.

    Attributes:
        fastest: By the fastest samples of each process.
        medians: By the median samples.
        at_end: By the fastest samples of the last rounds.
        sustained: By one run of some seconds without a pause; ``None`` where none was made.
    """

    fastest: Ratio
    medians: Ratio | None = None
    at_end: Ratio | None = None
    sustained: float | None = None

    @property
    def others(self) -> dict[str, Ratio]:
        """The other estimates with an interval, by name."""
        named = {"the median runs": self.medians, "the last rounds": self.at_end}
        return {name: ratio for name, ratio in named.items() if ratio is not None}

    @property
    def disagreement(self) -> str:
        """What another estimate says against the fastest runs; empty if they agree."""
        for name, other in self.others.items():
            if _denies(other, self.fastest):
                return f"the fastest runs say {self.fastest.value:.3g} times, {name} {other.value:.3g} times"
        if self.sustained is not None and self._denies_sustained(self.sustained):
            runs = "runs of some seconds without a pause"
            return f"the fastest runs say {self.fastest.value:.3g} times, {runs} {self.sustained:.3g} times"
        return ""

    @property
    def is_certain_disagreement(self) -> bool:
        """True if more samples would not end the disagreement: the intervals have nothing in common."""
        return any(_denies(other, self.fastest) and _are_apart(other, self.fastest) for other in self.others.values())

    def deny(self, least: float) -> bool:
        """Return whether an estimate beside the fastest runs is certainly below a ratio."""
        is_denied = any(ratio.interval.high < least for ratio in self.others.values())
        return is_denied or (self.sustained is not None and self.sustained < least * math.exp(-DISTURBED))

    def _denies_sustained(self, sustained: float) -> bool:
        gain = math.log(self.fastest.value)
        return gain > 0 and math.log(sustained) < SUPPORT * gain - DISTURBED

    @property
    def is_certainly_slower(self) -> bool:
        """True if an estimate says that the candidate is slower, with its whole interval."""
        return any(ratio.interval.high < 1 for ratio in (self.fastest, *self.others.values()))

    @property
    def is_slower(self) -> bool:
        """True if an estimate says that the candidate is slower, certainly or by more than ``LEAST_SPEED`` allows."""
        if self.fastest.value < LEAST_SPEED or self.fastest.interval.high < 1:
            return True
        # Medians differ more from process to process.
        return any(
            ratio.value < (LEAST_SPEED if ratio.interval.high < 1 else LEAST_MEDIAN) for ratio in self.others.values()
        )


def _denies(other: Ratio, fastest: Ratio) -> bool:
    """Return whether an estimate sees no gain, or certainly less than half of it, where the fastest runs see one."""
    if fastest.value <= 1:
        return other.value > 1 and fastest.interval.high < 1 < other.interval.low
    share = math.log(other.value) / math.log(fastest.value)
    return share <= 0 or (share < SUPPORT and _are_apart(other, fastest))


def _are_apart(one: Ratio, other: Ratio) -> bool:
    return one.interval.high < other.interval.low or other.interval.high < one.interval.low


def is_far_beyond_noise(gain: float, *, noise: float) -> bool:
    """Return whether a gain needs no noise floor.

    Args:
        gain: The smallest ratio that any process has read, by any estimator.
        noise: The largest difference that noise made, as a share.
    """
    return gain > max(LEAST_FAR, math.exp(FAR_BEYOND * math.log1p(noise)))
