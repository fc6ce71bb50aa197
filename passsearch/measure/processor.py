"""What the processor's cores were busy with. Standard library only: it is read in the timing process."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_CPUFREQ = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"


@dataclass(frozen=True)
class CpuTimes:
    """Seconds of processor time up to now, over some cores.

    Attributes:
        total: Of all kinds, idle included.
        busy: Spent by any process.
        stolen: Taken by the host.
        own: Spent by this process.
    """

    total: float
    busy: float
    stolen: float
    own: float

    @classmethod
    def read(cls, cores: Sequence[int]) -> "CpuTimes":
        """Now; all zero where the system does not tell."""
        try:
            lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        except OSError:
            return cls(0.0, 0.0, 0.0, 0.0)
        names = {f"cpu{core}" for core in cores}
        rows = [list(map(int, line.split()[1:9])) for line in lines if line.split()[0] in names]
        if not rows:
            return cls(0.0, 0.0, 0.0, 0.0)
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        user, nice, system, idle, wait, irq, soft, stolen = (tick_s * sum(column) for column in zip(*rows, strict=True))
        busy, times = user + nice + system + irq + soft, os.times()
        return cls(busy + idle + wait + stolen, busy, stolen, times.user + times.system)


def cache_bytes() -> int:
    """Size of the largest cache of core 0; 64 MiB where the system does not tell."""
    sizes = [path.read_text().strip() for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max((int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in sizes), default=64 << 20)


def clocks_hz(cores: Sequence[int]) -> list[int]:
    """Clock of every core now; empty where the system does not tell."""
    files = [Path(_CPUFREQ.format(core)) for core in cores]
    return [1000 * int(file.read_text()) for file in files if file.exists()]
