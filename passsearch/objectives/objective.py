"""What an objective says: how it is measured, confirmed, worded and drawn. Each objective is one class."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import passsearch.measure as measure  # it loads statistics, and with them scipy, on first use; a report needs none

if TYPE_CHECKING:
    from passsearch.evaluate import Built
    from passsearch.measure import Consumption, Ratio
    from passsearch.objectives.consumption_turn import ConsumptionTurn


class SearchReadings(Protocol):
    """What a search has read of one candidate."""

    @property
    def built(self) -> Built:
        """The artifact."""

    @property
    def ratio(self) -> Ratio | None:
        """Throughput as a multiple of the baseline's; ``None`` where nothing runs."""

    @property
    def compile_s(self) -> float:
        """Seconds to apply and build it."""

    @property
    def consumption(self) -> tuple[Consumption, Consumption] | None:
        """Consumption of the baseline and of the candidate; ``None`` where it was not read."""


class ConfirmedReadings(Protocol):
    """What a confirmation has read of winner and baseline."""

    @property
    def throughput(self) -> Ratio | None:
        """Throughput of the winner over the baseline's; ``None`` where nothing runs."""

    @property
    def twin(self) -> Ratio | None:
        """Throughput of another build of one pipeline over the first's."""

    @property
    def compile_time(self) -> Ratio:
        """Number of times the winner compiles faster."""

    @property
    def compile_twin(self) -> Ratio | None:
        """Number of times a second compile of the baseline is faster; ``None`` where there is none."""

    @property
    def consumption(self) -> Sequence[ConsumptionTurn]:
        """Consumption by repetition."""

    @property
    def level(self) -> float:
        """Confidence level of every interval."""


class Objective(ABC):
    """The quantity that a search improves. Subclasses set the attributes and define the methods.

    Attributes:
        name: The name that users type.
        unit: Unit of the value.
        direction: ``maximize`` or ``minimize``.
        is_speed: True if candidates are ranked by how fast they run.
        is_of_compiles: True if its samples are compiles, so that more of them make its ratio certain.
        needs_run: True if it can only be read where the target's code runs.
        is_equal_for_one_binary: True if a binary is equal to itself, whatever was read of two copies.
        sensor: Metric of the device's sensors that it is read from; empty for one that needs no sensor.
        place: Keys that lead to its value in the measurement of a candidate in a result. For speed, they lead to the
            ratio to the baseline.
        ratio_key: Key of its ratio in the object ``ratios`` of a result.
        chart_title: What the history of a search shows.
    """

    name: ClassVar[str]
    unit: ClassVar[str]
    direction: ClassVar[Literal["maximize", "minimize"]] = "minimize"
    is_speed: ClassVar[bool] = False
    is_of_compiles: ClassVar[bool] = False
    needs_run: ClassVar[bool] = True
    is_equal_for_one_binary: ClassVar[bool] = True
    sensor: ClassVar[str] = ""
    place: ClassVar[tuple[str, ...]]

    @property
    def title(self) -> str:
        """The name in words."""
        return self.name.replace("_", " ")

    @property
    def ratio_key(self) -> str:
        """Key of its ratio in the object ``ratios`` of a result."""
        return self.name

    @property
    def chart_title(self) -> str:
        """What the history of a search shows."""
        return f"gain in {self.title}"

    @abstractmethod
    def gain(self, baseline: SearchReadings, candidate: SearchReadings) -> float | None:
        """Return how many times better than the baseline a search has read a candidate to be.

        It is ``None`` where the candidate was too slow to be read.
        """

    @abstractmethod
    def ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times better the winner is confirmed to be; ``None`` for what was not measured again."""

    @abstractmethod
    def twin_ratio(self, confirmation: ConfirmedReadings) -> Ratio | None:
        """Return how many times better one build of a pipeline is than another; ``None`` where it was not read."""

    def floor(self, confirmation: ConfirmedReadings) -> float:
        """Return the share by which two builds of one pipeline may differ.

        It is infinite for what was not read, or not often enough for an estimate.
        """
        twin = self.twin_ratio(confirmation)
        return measure.noise_floor(twin) if twin else math.inf

    def is_certain(self, ratio: Ratio, confirmation: ConfirmedReadings, *, least_floor: float) -> bool:
        """Return whether a winner without a visible gain has certainly none that counts.

        That is so where the interval has none, or where the noise is too small to hide one.

        Args:
            ratio: Its confirmed ratio.
            confirmation: The confirmation.
            least_floor: Noise floor that hides no gain worth having.
        """
        return ratio.interval.high <= 1 + measure.MIN_GAIN or self.floor(confirmation) < least_floor

    @property
    def unread_reason(self) -> str:
        """The reason, as a report states it, why a confirmation has no ratio of this objective."""
        return f"{self.title} could not be read while the winner was confirmed"

    def gain_text(self, value: str) -> str:
        """Return a gain as the verdict states it, to be followed by "than" and the baseline.

        Args:
            value: The ratio as text.
        """
        return f"{value} times lower {self.title}"

    def gain_predicate(self, value: str) -> str:
        """Return a gain as the headline states it, between the network's name and "than"."""
        return f"has {self.gain_text(value)}"
