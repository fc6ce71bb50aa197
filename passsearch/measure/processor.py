"""What the processor's cores were busy with. Standard library only: it is read in the timing process."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CPU = "/sys/devices/system/cpu/cpu{}/"
_CLOCK, _THROTTLES = _CPU + "cpufreq/scaling_cur_freq", _CPU + "thermal_throttle/core_throttle_count"


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of processor time up to now, over some cores, and how the cores are.

    Attributes:
        total: Of all kinds, idle included.
        busy: Spent by any process.
        stolen: Taken by the host.
        own: Spent by this process.
        throttles: Times a core was too hot and slowed itself down; ``None`` where the system does not tell.
        clock_hz: Of the slowest core now; ``None`` likewise.
        time_s: When this was read, on the monotonic clock.
    """

    total: float
    busy: float
    stolen: float
    own: float
    throttles: int | None = None
    clock_hz: int | None = None
    time_s: float = 0.0

    @classmethod
    def read(cls, cores: Sequence[int]) -> "CpuTimes":
        """Now; all zero where the system does not tell."""
        try:
            lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        except OSError:
            return cls(0.0, 0.0, 0.0, 0.0, time_s=time.monotonic())
        names = {f"cpu{core}" for core in cores}
        rows = [list(map(int, line.split()[1:9])) for line in lines if line.split()[0] in names]
        if not rows:
            return cls(0.0, 0.0, 0.0, 0.0, time_s=time.monotonic())
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        user, nice, system, idle, wait, irq, soft, stolen = (tick_s * sum(column) for column in zip(*rows, strict=True))
        busy, times = user + nice + system + irq + soft, os.times()
        throttles, clock_hz = throttle_count(cores), min(clocks_hz(cores), default=None)
        total, own = busy + idle + wait + stolen, times.user + times.system
        return cls(total, busy, stolen, own, throttles, clock_hz, time.monotonic())


def pin(threads: int) -> list[int]:
    """Keep this process, all its threads, to the first so many of its cores; answers which."""
    cores = sorted(os.sched_getaffinity(0))[:threads]
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
    return cores


def cache_bytes() -> int:
    """Size of the largest cache of core 0; 64 MiB where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=64 << 20)


def clocks_hz(cores: Sequence[int]) -> list[int]:
    """Clock of every core now; empty where the system does not tell."""
    return [1000 * value for value in _numbers(_CLOCK, cores)]


def throttle_count(cores: Sequence[int]) -> int | None:
    """Times the cores slowed themselves down for heat; ``None`` where the system does not tell."""
    counts = _numbers(_THROTTLES, cores)
    return sum(counts) if counts else None


def _numbers(file: str, cores: Sequence[int]) -> list[int]:
    files = [Path(file.format(core)) for core in cores]
    return [int(each.read_text()) for each in files if each.exists()]
