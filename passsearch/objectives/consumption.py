"""Power and energy: what a meter reads while artifacts run in turns over long windows."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING

import passsearch.measure as measure
from passsearch.objectives.consumption_turn import ConsumptionTurn
from passsearch.objectives.objective import ConfirmedReadings, Objective, SearchReadings

if TYPE_CHECKING:
    from passsearch.measure import Consumption, Ratio


class MeteredObjective(Objective):
    """An objective that a meter of the device reads."""

    @abstractmethod
    def is_read(self, consumption: Consumption) -> bool:
        """Return whether it was read and is positive, so that a ratio of it exists."""

    @abstractmethod
    def log_ratio(self, baseline: Consumption, candidate: Consumption) -> float:
        """Return the log of how many times less the candidate consumes than a baseline that ran in turn with it."""

    def gain(self, baseline: SearchReadings, candidate: SearchReadings) -> float | None:
        """Return how many times less the candidate consumes; ``None`` if it was too slow to be measured."""
        # One binary takes the same energy, whatever two windows read of it.
        if candidate.built.digest == baseline.built.digest:
            return 1.0
        return None if candidate.consumption is None else math.exp(self.log_ratio(*candidate.consumption))

    def ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times less the winner consumes; ``None`` where a repetition has not read it."""
        return self._ratio(confirmation, lambda turn: turn.candidate)

    def twin_ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times less another build of the baseline consumes."""
        return self._ratio(confirmation, lambda turn: turn.twin)

    def _ratio(self, confirmation: ConfirmedReadings, other: Callable[[ConsumptionTurn], Consumption]) -> Ratio | None:
        # One process measures the consumption in each repetition, so a repetition is one value.
        turns = confirmation.consumption
        read = [each for turn in turns for each in (turn.baseline, turn.twin, turn.candidate)]
        if not read or not all(map(self.is_read, read)):
            return None
        return measure.mean_ratio(
            [self.log_ratio(turn.baseline, other(turn)) for turn in turns], level=confirmation.level
        )


class Power(MeteredObjective):
    """Watts, compared by the medians over all readings."""

    name, unit = "power", "W"
    sensor = "power_w"
    place = (sensor, "median")

    def is_read(self, consumption: Consumption) -> bool:
        """Return whether there are readings with a positive median."""
        return bool(consumption.power_w) and consumption.power_w["median"] > 0  # type: ignore[index]

    def log_ratio(self, baseline: Consumption, candidate: Consumption) -> float:
        """Return the log of the baseline's median over the candidate's."""
        assert baseline.power_w is not None and candidate.power_w is not None
        return math.log(baseline.power_w["median"] / candidate.power_w["median"])


class Energy(MeteredObjective):
    """Joules per inference, compared by the median over pairs of windows."""

    name, unit = "energy", "J"
    sensor = "energy_j"
    place = (sensor,)

    def is_read(self, consumption: Consumption) -> bool:
        """Return whether every window has read a positive energy."""
        return bool(consumption.energy_j) and min(consumption.energy_j or ()) > 0

    def log_ratio(self, baseline: Consumption, candidate: Consumption) -> float:
        """Return the median over pairs of windows of the log of the baseline's energy over the candidate's."""
        assert baseline.energy_j is not None and candidate.energy_j is not None
        return median(math.log(a / b) for a, b in zip(baseline.energy_j, candidate.energy_j, strict=True))
