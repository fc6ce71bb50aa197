"""NVIDIA GPUs by NVML (package nvidia-ml-py). The only importer of pynvml."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import psutil
import pynvml

from passsearch.core import Json
from passsearch.errors import EnvironmentFault
from passsearch.measure.telemetry import SensorReading

Value = TypeVar("Value")

# A power cap is not among them: it is normal for a busy GPU and affects all candidates alike.
SLOWDOWNS = {
    "HwSlowdown": "hardware slowdown",
    "HwThermalSlowdown": "too hot (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
    "SwThermalSlowdown": "too hot (driver)",
}
"""NVML's reasons for lower clocks that make a round count as disturbed, with their names in results."""


class NvmlMeter:
    """The sensors of one GPU.

    Attributes:
        unavailable: Reason why a metric cannot be read, by metric.
        reports_disturbances: Always true: the driver reports slowdowns and foreign processes.
    """

    def __init__(self, uuid: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Read every metric once; a metric that fails is unavailable from then on.

        Args:
            uuid: The GPU's UUID, ``GPU-…``; see ``list_gpus``. An index would not do: CUDA and NVML count differently.
            clock: Returns the monotonic time in seconds.

        Raises:
            EnvironmentFault: The driver does not respond or does not know the GPU.
        """
        self._handle = _call_driver(lambda: _open_gpu(uuid))
        self._clock = clock
        self.unavailable: dict[str, str] = {}
        # NVML counts millijoules, milliwatts and megahertz.
        self._energy_j = self._sensor(
            "energy_j", lambda: 1e-3 * pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        )
        self._power_w = self._sensor("power_w", lambda: 1e-3 * pynvml.nvmlDeviceGetPowerUsage(self._handle))
        self._temperature_c = self._sensor("temperature_c", self._read_temperature_c)
        self._memory_and_foreign = self._sensor("memory_bytes.device", self._read_memory_and_foreign)
        self._slowdowns = self._sensor("throttled", self._read_slowdowns)
        self._clock_hz = self._sensor("clocks", self._read_clock_hz)
        self.reports_disturbances = True

    def read(self) -> SensorReading:
        """Read all sensors now; a sensor that fails this time is ``None`` in this reading."""
        memory_bytes, foreign = self._memory_and_foreign() or (None, None)
        return SensorReading(
            self._clock(),
            energy_j=self._energy_j(),
            power_w=self._power_w(),
            temperature_c=self._temperature_c(),
            memory_bytes=memory_bytes,
            slowdowns=self._slowdowns(),
            foreign=foreign,
            clock_hz=self._clock_hz(),
        )

    def _sensor(self, metric: str, read: Callable[[], Value]) -> Callable[[], Value | None]:
        """Return a function that reads one sensor and never fails."""
        try:
            read()
        except pynvml.NVMLError as error:
            self.unavailable[metric] = f"NVML: {error}"
            return lambda: None

        def read_or_none() -> Value | None:
            with contextlib.suppress(pynvml.NVMLError):
                return read()
            return None

        return read_or_none

    def _read_temperature_c(self) -> float:
        return float(pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU))

    def _read_clock_hz(self) -> int:
        return int(1e6 * pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM))

    def _read_slowdowns(self) -> tuple[str, ...]:
        bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        return tuple(
            reason for name, reason in SLOWDOWNS.items() if bits & getattr(pynvml, f"nvmlClocksEventReason{name}")
        )

    def _read_memory_and_foreign(self) -> tuple[int | None, int | None]:
        """Return the bytes that our processes use and the number of foreign processes; ``None`` if not available."""
        processes = list(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        if not processes:
            return 0, 0
        our_pids = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        used_bytes = [process.usedGpuMemory for process in processes if process.pid in our_pids]
        if not used_bytes:
            # In a container the driver may list processes by the host's ids. Our processes then look like foreign ones,
            # so a list without any of ours says nothing.
            return None, None
        memory_bytes = None if None in used_bytes else int(sum(used_bytes))
        return memory_bytes, len(processes) - len(used_bytes)


def list_gpus() -> list[Mapping[str, Json]]:
    """Return name, UUID, memory, architecture (``sm_80``) and driver of every GPU, in NVML's order (by bus id).

    Raises:
        EnvironmentFault: The driver does not respond.
    """
    return _call_driver(_describe_gpus)


def _describe_gpus() -> list[Mapping[str, Json]]:
    pynvml.nvmlInit()
    return [_describe_gpu(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(pynvml.nvmlDeviceGetCount())]


def _describe_gpu(handle: Any) -> Mapping[str, Json]:
    return {
        "name": pynvml.nvmlDeviceGetName(handle),
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "arch": "sm_{}{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }


def _open_gpu(uuid: str) -> Any:
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _call_driver(call: Callable[[], Value]) -> Value:
    try:
        return call()
    except pynvml.NVMLError as error:
        reason = f"NVML: {error}. A GPU is measured through its driver. See: passsearch doctor"
        raise EnvironmentFault(reason) from error
