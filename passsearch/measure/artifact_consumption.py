"""Power, energy, temperature and utilisation of one artifact, over the windows it ran in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from passsearch.core import Json


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
