"""Throughput and latency: how fast a network runs. Both have one ratio and differ in their words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from passsearch.objectives.objective import ConfirmedReadings, Objective, SearchReadings

if TYPE_CHECKING:
    from passsearch.measure import Ratio


class Speed(Objective):
    """An objective by which candidates are ranked by their latency beside the baseline's."""

    is_speed = True
    place = ("ratio", "ratio")

    @property
    def ratio_key(self) -> str:
        """Key of the ratio of throughputs, which is that of latencies too."""
        return Throughput.name

    def gain(self, baseline: SearchReadings, candidate: SearchReadings) -> float | None:
        """Return the candidate's throughput as a multiple of the baseline's."""
        assert candidate.ratio is not None
        return candidate.ratio.value

    def ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return the winner's throughput over the baseline's; ``None`` where nothing runs."""
        return confirmation.throughput

    def twin_ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return the throughput of another build of the baseline, or of the winner, over that of the first."""
        return confirmation.twin

    def gain_predicate(self, value: str) -> str:
        """Return that the network runs faster."""
        return f"runs {value} times faster"


class Throughput(Speed):
    """Samples per second."""

    name, unit, direction = "throughput", "1/s", "maximize"
    chart_title = name

    def gain_text(self, value: str) -> str:
        """Return that the throughput is higher."""
        return f"{value} times higher {self.title}"


class Latency(Speed):
    """Seconds per inference."""

    name, unit = "latency", "s"
    chart_title = "speed"
