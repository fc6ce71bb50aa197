"""Compile time: seconds to apply a pipeline, build the result and write it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passsearch.objectives.objective import ConfirmedReadings, Objective, SearchReadings

if TYPE_CHECKING:
    from passsearch.measure import Ratio

CLEAR = 1.05
"""Ratio of compile times up to which two candidates compile equally fast, for a reader."""


class CompileTime(Objective):
    """Seconds of one compile. Two pipelines that make one binary may take different times for it."""

    name, unit = "compile_time", "s"
    is_of_compiles, needs_run, is_equal_for_one_binary = True, False, False
    place = ("compile_s",)

    def gain(self, baseline: SearchReadings, candidate: SearchReadings) -> float | None:
        """Return how many times faster the candidate compiled, by one compile of each."""
        return baseline.compile_s / candidate.compile_s

    def ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times faster the winner compiles afresh."""
        return confirmation.compile_time

    def twin_ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times faster a second compile of the baseline is than the first."""
        return confirmation.compile_twin

    def is_certain(self, ratio: Ratio, confirmation: ConfirmedReadings, *, least_floor: float) -> bool:
        """Return whether it is clear which of two compiles faster, or that both are about equally fast."""
        # Compiles are too few and too noisy for a floor that hides no gain.
        low, high = ratio.interval.low, ratio.interval.high
        return low > 1 or high < 1 or (low > 1 / CLEAR and high < CLEAR)

    def gain_text(self, value: str) -> str:
        """Return that the network compiles faster."""
        return f"compiles {value} times faster"

    def gain_predicate(self, value: str) -> str:
        """Return the text of ``gain_text``, which is a predicate already."""
        return self.gain_text(value)
