"""Processor packages by RAPL, the energy counters that Linux shows under ``/sys/class/powercap`` (Intel and AMD).

Source: https://docs.kernel.org/power/powercap/powercap.html; the counters wrap at ``max_energy_range_uj``.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from passsearch.measure.telemetry import SensorReading

POWERCAP = Path("/sys/class/powercap")
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Linux drivers of processor temperature sensors."""


@dataclass
class _Package:
    """The energy counter of one package, continued when it wraps."""

    file: Path
    range_uj: int
    last_uj: int
    wraps: int = 0

    def joules(self) -> float:
        """Return the energy since an unknown moment; only differences have a meaning."""
        now_uj = int(self.file.read_text())
        # A wrap shows as a decrease. It takes minutes, and the readings of a recording are milliseconds apart, so no
        # recording misses one.
        self.wraps += now_uj < self.last_uj
        self.last_uj = now_uj
        return 1e-6 * (now_uj + self.wraps * self.range_uj)


class RaplMeter:
    """All processor packages together.

    The counters include other processes, so only the differences between artifacts that run in turns have a meaning.

    Attributes:
        unavailable: Reason why a metric cannot be read, by metric.
        reports_disturbances: Always false: RAPL reports neither slowdowns nor foreign processes.
    """

    reports_disturbances = False

    def __init__(self, root: Path = POWERCAP) -> None:
        """Detect which counters and sensors can be read."""
        self.unavailable: dict[str, str] = {}
        self._packages: list[_Package] = []
        try:
            # `intel-rapl:0:0` is a part of `intel-rapl:0`, whose counter includes it already. `psys` covers the board.
            zones = [zone for zone in sorted(root.glob("*rapl:*")) if zone.name.count(":") == 1]
            packages = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
            self._packages = [_open_package(zone) for zone in packages]
            reason = "" if packages else "this system shows no RAPL counters"
        except PermissionError:
            reason = f"RAPL counters are readable by root only (chmod a+r {root}/*/energy_uj)"
        except OSError:  # containers hide the folders to which these links lead
            reason = "this system shows no RAPL counters"
        self.unavailable |= dict.fromkeys(("power_w", "energy_j"), reason) if reason else {}
        if _temperature_c() is None:
            self.unavailable["temperature_c"] = "this system shows no temperature of the processor"
        self._last: SensorReading | None = None

    def begin(self) -> None:
        """Do nothing: counters of processors name no processes."""

    def read(self) -> SensorReading:
        """Read the sensors now; power is the mean since the last reading."""
        now_s, last = time.monotonic(), self._last
        energy_j = self._energy_j()
        power_w = None
        if last is not None and last.energy_j is not None and energy_j is not None and now_s > last.time_s:
            power_w = (energy_j - last.energy_j) / (now_s - last.time_s)
        self._last = SensorReading(now_s, energy_j=energy_j, power_w=power_w, temperature_c=_temperature_c())
        return self._last

    def _energy_j(self) -> float | None:
        try:
            return sum(package.joules() for package in self._packages) if self._packages else None
        except OSError:  # an administrator can withdraw the permission at any time
            return None


def _open_package(zone: Path) -> _Package:
    counter = zone / "energy_uj"
    return _Package(counter, int((zone / "max_energy_range_uj").read_text()), int(counter.read_text()))


def _temperature_c() -> float | None:
    """Return the temperature of the processor's hottest sensor; ``None`` without a sensor."""
    sensors = psutil.sensors_temperatures()
    return max((sensor.current for chip in CHIPS for sensor in sensors.get(chip, [])), default=None)
