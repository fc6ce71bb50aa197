"""Processor packages by RAPL, the energy counters Linux shows under ``/sys/class/powercap`` (Intel and AMD).

Source: https://docs.kernel.org/power/powercap/powercap.html; the counters wrap at ``max_energy_range_uj``.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from passsearch.measure.telemetry import Reading

POWERCAP = Path("/sys/class/powercap")
CHIPS = ("coretemp", "k10temp", "zenpower", "cpu_thermal")
"""Linux drivers of processors' temperature sensors."""


@dataclass
class _Package:
    """One counter, unwrapped."""

    file: Path
    range_uj: int
    last_uj: int
    wraps: int = 0

    def joules(self) -> float:
        """Since the counter's first turn that was seen."""
        now_uj = int(self.file.read_text())
        self.wraps += now_uj < self.last_uj
        self.last_uj = now_uj
        return 1e-6 * (now_uj + self.wraps * self.range_uj)


class RaplMeter:
    """All packages together; a part of a package is in its package's counter already and is not added.

    What other processes use is in it, too: only differences between artifacts in turn mean something.
    """

    watches = False

    def __init__(self, root: Path = POWERCAP) -> None:
        """Find out what can be read."""
        self.unavailable: dict[str, str] = {}
        self._packages: list[_Package] = []
        try:
            zones = [zone for zone in sorted(root.glob("*rapl:*")) if zone.name.count(":") == 1]
            packages = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
            self._packages = [_package(zone) for zone in packages]
            reason = "" if packages else "this system shows no RAPL counters"
        except PermissionError:
            reason = f"RAPL counters are readable by root only (chmod a+r {root}/*/energy_uj)"
        self.unavailable |= dict.fromkeys(("power_w", "energy_j"), reason) if reason else {}
        if _celsius() is None:
            self.unavailable["temperature_c"] = "this system shows no temperature of the processor"
        self._last: Reading | None = None

    def read(self) -> Reading:
        """Now; power is that since the last reading."""
        now_s, last = time.monotonic(), self._last
        energy_j = self._joules()
        power_w = None
        if last is not None and last.energy_j is not None and energy_j is not None and now_s > last.time_s:
            power_w = (energy_j - last.energy_j) / (now_s - last.time_s)
        self._last = Reading(now_s, energy_j=energy_j, power_w=power_w, temperature_c=_celsius())
        return self._last

    def _joules(self) -> float | None:
        try:
            return sum(each.joules() for each in self._packages) if self._packages else None
        except OSError:  # rights can be taken back at any time
            return None


def _package(zone: Path) -> _Package:
    counter = zone / "energy_uj"
    return _Package(counter, int((zone / "max_energy_range_uj").read_text()), int(counter.read_text()))


def _celsius() -> float | None:
    """Of the hottest sensor of the processor."""
    sensors = psutil.sensors_temperatures()
    return max((each.current for name in CHIPS for each in sensors.get(name, [])), default=None)
