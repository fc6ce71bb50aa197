"""What the device can tell beside time. The only importer of pynvml (package nvidia-ml-py)."""

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from passsearch.core import Json
from passsearch.measure.processor import clocks_hz, throttle_count

NVML_METRICS = ("power_w", "temperature_c", "memory_bytes.device", "energy_j")


@dataclass(frozen=True)
class Sensors:
    """What was found once, at start.

    Attributes:
        device: Name, cores and memory of the device that runs the kernels.
        unavailable: Why a metric cannot be read, by metric.
    """

    device: dict[str, Json]
    unavailable: dict[str, str]


def probe(device: str = "cpu") -> Sensors:
    """Find out what can be read for ``cpu`` or ``cuda[:index]``."""
    if device.startswith("cuda"):
        return _probe_gpu(int(device.partition(":")[2] or 0))
    reason = "the target is the CPU; NVML reads NVIDIA GPUs only"
    unavailable = dict.fromkeys(NVML_METRICS, reason)
    if throttle_count([0]) is None:
        unavailable["throttled"] = "this system does not count the cores' thermal throttling"
    if not clocks_hz([0]):
        unavailable["clocks"] = "this system does not show the cores' clocks"
    return Sensors(_cpu(), unavailable)


def _probe_gpu(index: int) -> Sensors:
    import pynvml

    try:
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        found = {"name": pynvml.nvmlDeviceGetName(handle), "uuid": pynvml.nvmlDeviceGetUUID(handle)}
        found["memory_bytes"] = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
        pynvml.nvmlShutdown()
    except pynvml.NVMLError as error:
        return Sensors(_cpu(), dict.fromkeys(NVML_METRICS, f"NVML: {error}"))
    reason = "telemetry while timing is not implemented for this device yet"
    return Sensors(found, dict.fromkeys(NVML_METRICS, reason))


def _cpu() -> dict[str, Json]:
    return {
        "name": _cpu_name(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "threads": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_name() -> str:
    info: Any = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return str(line.partition(":")[2].strip())
    return platform.processor() or platform.machine()
