"""Detects which metrics of the device can be read, beside time."""

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from passsearch.core import Json
from passsearch.errors import EnvironmentFault
from passsearch.measure.processor import clocks_hz, throttle_count
from passsearch.measure.rapl import RaplMeter
from passsearch.measure.telemetry import Meter

METRICS = ("power_w", "energy_j", "temperature_c", "utilisation", "throttled")


@dataclass(frozen=True)
class Sensors:
    """A device and the metrics it offers.

    Attributes:
        device: Name and memory of the device that runs the kernels; also the cores of a processor, the ``uuid`` of a
            GPU.
        unavailable: Reason why a metric cannot be read, by metric.
        meter: Reads the available metrics; ``None`` if there are none.
    """

    device: Mapping[str, Json]
    unavailable: Mapping[str, str]
    meter: Meter | None = None


def probe(device: str = "cpu") -> Sensors:
    """Detect the metrics of ``cpu`` or ``cuda[:index]``; the index counts the GPUs that CUDA may use."""
    return _probe_gpu(int(device.partition(":")[2] or 0)) if device.startswith("cuda") else _probe_cpu()


def _probe_cpu() -> Sensors:
    meter = RaplMeter()
    unavailable = {
        **meter.unavailable,
        "memory_bytes.device": "the target is the CPU; see peak_rss",
        "utilisation": "the target is the CPU; see conditions",
    }
    if throttle_count([0]) is None:
        unavailable["throttled"] = "this system does not count the cores' thermal throttling"
    if not clocks_hz([0]):
        unavailable["clocks"] = "this system does not show the cores' clocks"
    if "energy_j" in unavailable:
        # Temperature is read in windows that last seconds; these do not run for a temperature alone.
        unavailable.setdefault("temperature_c", "read together with energy, which cannot be read")
        return Sensors(_describe_cpu(), unavailable)
    return Sensors(_describe_cpu(), unavailable, meter)


def _probe_gpu(index: int) -> Sensors:
    # Imported on demand: a machine without a GPU has no use for pynvml.
    from passsearch.measure import nvml

    try:
        gpu = _select_gpu(nvml.list_gpus(), index)
        meter = nvml.NvmlMeter(str(gpu["uuid"]))
    except EnvironmentFault as error:
        return Sensors({"name": f"cuda:{index}"}, dict.fromkeys(METRICS, str(error)))
    return Sensors({key: value for key, value in gpu.items() if key != "card"}, meter.unavailable, meter)


def _select_gpu(gpus: Sequence[Mapping[str, Json]], index: int) -> Mapping[str, Json]:
    """Return the GPU that CUDA calls ``index``, by ``CUDA_VISIBLE_DEVICES`` (indices in order of bus ids, or UUIDs).

    Raises:
        EnvironmentFault: CUDA has no GPU of this index.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(gpu["uuid"]) for gpu in gpus] if visible is None else [name.strip() for name in visible.split(",")]
    name = names[index] if index < len(names) else ""
    for gpu in gpus:
        # CUDA takes the first slice of a divided card, and accepts the beginning of a UUID, too.
        if name == str(gpu["card"]) or (name.startswith(("GPU-", "MIG-")) and str(gpu["uuid"]).startswith(name)):
            return gpu
    raise EnvironmentFault(
        f"There is no GPU {index}: NVML sees {len(gpus)}, CUDA_VISIBLE_DEVICES is `{visible or ''}`. "
        "See: passsearch doctor"
    )


def _describe_cpu() -> Mapping[str, Json]:
    return {
        "name": _cpu_name(),
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "threads": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
    }


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    # `platform.processor` is empty on most Linux systems.
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
