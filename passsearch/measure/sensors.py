"""What the device can tell beside time, found out once."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from passsearch.core import Json
from passsearch.errors import EnvironmentFault
from passsearch.measure.processor import clocks_hz, throttle_count
from passsearch.measure.rapl import RaplMeter
from passsearch.measure.telemetry import Meter

METRICS = ("power_w", "energy_j", "temperature_c", "memory_bytes.device", "throttled")


@dataclass(frozen=True)
class Sensors:
    """What was found once, at start.

    Attributes:
        device: Name and memory of the device that runs the kernels; of a processor its cores, of a GPU its ``uuid``.
        unavailable: Why a metric cannot be read, by metric.
        meter: Reads the others; ``None`` where there is nothing to read.
    """

    device: Mapping[str, Json]
    unavailable: Mapping[str, str]
    meter: Meter | None = None


def probe(device: str = "cpu") -> Sensors:
    """Find out what can be read for ``cpu`` or ``cuda[:index]``, where the index counts what CUDA may see."""
    return _probe_gpu(int(device.partition(":")[2] or 0)) if device.startswith("cuda") else _probe_cpu()


def _probe_cpu() -> Sensors:
    meter = RaplMeter()
    unavailable = {**meter.unavailable, "memory_bytes.device": "the target is the CPU; see peak_rss"}
    if throttle_count([0]) is None:
        unavailable["throttled"] = "this system does not count the cores' thermal throttling"
    if not clocks_hz([0]):
        unavailable["clocks"] = "this system does not show the cores' clocks"
    if "energy_j" in unavailable:  # windows that last seconds are not run for a temperature alone
        unavailable.setdefault("temperature_c", "read together with energy, which cannot be read")
        return Sensors(_cpu(), unavailable)
    return Sensors(_cpu(), unavailable, meter)


def _probe_gpu(index: int) -> Sensors:
    from passsearch.measure import nvml  # where there is no GPU it is not loaded

    try:
        found = _visible(nvml.gpus(), index)
        meter = nvml.NvmlMeter(str(found["uuid"]))
    except EnvironmentFault as error:
        return Sensors({"name": f"cuda:{index}"}, dict.fromkeys(METRICS, str(error)))
    return Sensors(found, meter.unavailable, meter)


def _visible(gpus: Sequence[Mapping[str, Json]], index: int) -> Mapping[str, Json]:
    """The GPU that CUDA would call ``index``, by ``CUDA_VISIBLE_DEVICES`` (indices in the order of bus ids, or UUIDs).

    Raises:
        EnvironmentFault: There is none.
    """
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in allowed.split(",")] if allowed is not None else [str(n) for n in range(len(gpus))]
    name = names[index] if index < len(names) else ""
    for place, gpu in enumerate(gpus):
        if name == str(place) or (name.startswith("GPU-") and str(gpu["uuid"]).startswith(name)):
            return gpu
    raise EnvironmentFault(
        f"There is no GPU {index}: NVML sees {len(gpus)}, CUDA_VISIBLE_DEVICES is `{allowed or ''}`. "
        "See: passsearch doctor"
    )


def _cpu() -> Mapping[str, Json]:
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
