"""Power, energy, temperature and utilisation of one artifact, over the windows it ran in."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from passsearch.core import Json

CONSUMPTION_OBJECTIVES = ("power", "energy")
"""Objectives that are read over windows."""


@dataclass(frozen=True)
class Consumption:
    """Energy, power, temperature and utilisation of one artifact; ``None`` where the device did not report it.

    Attributes:
        energy_j: Energy per inference, one value a window.
        power_w: ``median`` and ``max`` over all windows.
        temperature_c: ``median``, ``max``, ``start`` and ``end``.
        utilisation: ``median`` and ``max`` of the share of the time in which a GPU ran a kernel.
    """

    energy_j: tuple[float, ...] | None
    power_w: Mapping[str, float] | None
    temperature_c: Mapping[str, float] | None
    utilisation: Mapping[str, float] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Consumption":
        """Read the form that the log keeps."""
        energy_j = data["energy_j"]
        return cls(
            None if energy_j is None else tuple(energy_j),
            data["power_w"],
            data["temperature_c"],
            data.get("utilisation"),  # logs from before it was read
        )

    def to_json(self) -> dict[str, Json]:
        """Return the form that the log keeps."""
        return {
            "energy_j": None if self.energy_j is None else list(self.energy_j),
            "power_w": None if self.power_w is None else dict(self.power_w),
            "temperature_c": None if self.temperature_c is None else dict(self.temperature_c),
            "utilisation": None if self.utilisation is None else dict(self.utilisation),
        }

    def has(self, objective: str) -> bool:
        """Return whether an objective was read and is positive, so that a ratio of it exists."""
        if objective == "power":
            return bool(self.power_w) and self.power_w["median"] > 0  # type: ignore[index]
        return bool(self.energy_j) and min(self.energy_j or ()) > 0

    def log_ratio(self, candidate: "Consumption", *, objective: str) -> float:
        """Return the log of how many times less the candidate consumes than this baseline, run in turn with it.

        Energy is compared by the median over pairs of windows, power by the medians over all readings.
        """
        if objective == "power":
            assert self.power_w is not None and candidate.power_w is not None
            return math.log(self.power_w["median"] / candidate.power_w["median"])
        assert self.energy_j is not None and candidate.energy_j is not None
        return median(math.log(a / b) for a, b in zip(self.energy_j, candidate.energy_j, strict=True))
