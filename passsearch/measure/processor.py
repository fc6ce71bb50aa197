"""CPU counters of the cores that kernels run on. Standard library only, because the timing process reads them."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from passsearch.core import usable_processors

_CPU = "/sys/devices/system/cpu/cpu{}/"
_CLOCK, _THROTTLES = _CPU + "cpufreq/scaling_cur_freq", _CPU + "thermal_throttle/core_throttle_count"

DEFAULT_CACHE_BYTES = 64 << 20
"""Cache size to assume if the system does not report one."""


@dataclass(frozen=True)
class CpuTimes:
    """CPU counters of some cores at one moment; times are in seconds since boot.

    Attributes:
        total: Time of all kinds, idle time included.
        busy: Time in which any process ran.
        stolen: Time that the host of a virtual machine took.
        own: Time in which this process ran, on any core.
        throttles: Number of times a core was too hot and reduced its clock; ``None`` if the system does not report it.
        clock_hz: Clock of the slowest core at this moment; ``None`` if the system does not report it.
        time_s: Moment of the reading, on the monotonic clock.
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
        """Read the counters now; if the system does not report them, only ``time_s`` is set."""
        rows = _stat_rows(cores)
        if not rows:
            return cls(0.0, 0.0, 0.0, 0.0, time_s=time.monotonic())
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        # Columns as in proc_stat(5). Guest time is not among the first eight: `user` includes it.
        user, nice, system, idle, wait, irq, soft, stolen = (tick_s * sum(column) for column in zip(*rows, strict=True))
        busy, times = user + nice + system + irq + soft, os.times()
        throttles, clock_hz = throttle_count(cores), min(clocks_hz(cores), default=None)
        total, own = busy + idle + wait + stolen, times.user + times.system
        return cls(total, busy, stolen, own, throttles, clock_hz, time.monotonic())


def _stat_rows(cores: Sequence[int]) -> list[list[int]]:
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    names = {f"cpu{core}" for core in cores}
    return [list(map(int, line.split()[1:9])) for line in lines if line.split()[0] in names]


def pin_process(threads: int) -> list[int]:
    """Pin this process to one processor for each of ``threads`` and return them: on as many cores as there are."""
    cores = usable_processors()[:threads]
    # Affinity belongs to a thread: those that already run must be pinned one by one. All get all cores: with one core
    # for each, every parallel loop on a busy machine waits for the thread whose core another process has.
    for task in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)
    return cores


def cache_bytes() -> int:
    """Return the size of the largest cache of core 0, or ``DEFAULT_CACHE_BYTES`` if the system does not report it."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=DEFAULT_CACHE_BYTES)


def clocks_hz(cores: Sequence[int]) -> list[int]:
    """Return the current clock of every core; empty if the system does not report clocks."""
    return [1000 * clock_khz for clock_khz in _read_numbers(_CLOCK, cores)]


def throttle_count(cores: Sequence[int]) -> int | None:
    """Return how often the cores reduced their clock for heat; ``None`` if the system does not report it."""
    counts = _read_numbers(_THROTTLES, cores)
    return sum(counts) if counts else None


def _read_numbers(template: str, cores: Sequence[int]) -> list[int]:
    files = [Path(template.format(core)) for core in cores]
    return [int(file.read_text()) for file in files if file.exists()]
