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
from passsearch.measure.telemetry import Reading

Value = TypeVar("Value")

SLOWDOWNS = {
    "HwSlowdown": "hardware slowdown",
    "HwThermalSlowdown": "too hot (hardware)",
    "HwPowerBrakeSlowdown": "power brake",
    "SwThermalSlowdown": "too hot (driver)",
}
"""Reasons that make a round disturbed. A power cap is none: it is how a busy GPU runs, and holds for all candidates."""


class NvmlMeter:
    """One GPU, found by its UUID: indices change with the order in which CUDA and NVML count."""

    def __init__(self, uuid: str) -> None:
        """Try every metric once; what fails is unavailable from then on.

        Args:
            uuid: ``GPU-…``; see ``gpus``.

        Raises:
            EnvironmentFault: The driver or the GPU is not there.
        """
        self._handle = _or_fault(lambda: _opened(uuid))
        self.unavailable: dict[str, str] = {}
        self._energy = self._usable("energy_j", lambda: 1e-3 * pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        self._power = self._usable("power_w", lambda: 1e-3 * pynvml.nvmlDeviceGetPowerUsage(self._handle))
        self._heat = self._usable("temperature_c", self._celsius)
        self._users = self._usable("memory_bytes.device", self._own_and_foreign)
        self._why_slow = self._usable("throttled", self._reasons)
        self._clock = self._usable("clocks", self._hertz)
        self.watches = True

    def read(self) -> Reading:
        """Now; a metric that fails this once is ``None`` in this reading."""
        memory_bytes, foreign = self._users() or (None, None)
        return Reading(
            time.monotonic(),
            energy_j=self._energy(),
            power_w=self._power(),
            temperature_c=self._heat(),
            memory_bytes=memory_bytes,
            slowdowns=self._why_slow(),
            foreign=foreign,
            clock_hz=self._clock(),
        )

    def _usable(self, metric: str, read: Callable[[], Value]) -> Callable[[], Value | None]:
        try:
            read()
        except pynvml.NVMLError as error:
            self.unavailable[metric] = f"NVML: {error}"
            return lambda: None

        def once() -> Value | None:
            with contextlib.suppress(pynvml.NVMLError):
                return read()
            return None

        return once

    def _celsius(self) -> float:
        return float(pynvml.nvmlDeviceGetTemperature(self._handle, pynvml.NVML_TEMPERATURE_GPU))

    def _hertz(self) -> int:
        return int(1e6 * pynvml.nvmlDeviceGetClockInfo(self._handle, pynvml.NVML_CLOCK_SM))

    def _reasons(self) -> tuple[str, ...]:
        bits = pynvml.nvmlDeviceGetCurrentClocksEventReasons(self._handle)
        return tuple(why for name, why in SLOWDOWNS.items() if bits & getattr(pynvml, f"nvmlClocksEventReason{name}"))

    def _own_and_foreign(self) -> tuple[int | None, int | None]:
        """Bytes our processes hold, and how many others there are; ``None`` for what the driver does not say.

        In a container the driver may list processes by the host's numbers. Ours cannot be told from others then, and
        where none of them is ours nothing is said of either.
        """
        listed = list(pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle))
        if not listed:
            return 0, 0
        mine = {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
        used = [each.usedGpuMemory for each in listed if each.pid in mine]
        if not used:
            return None, None
        return (None if None in used else int(sum(used))), len(listed) - len(used)


def gpus() -> list[Mapping[str, Json]]:
    """Name, UUID, memory and architecture (``sm_80``) of every GPU, in NVML's order (by bus id).

    Raises:
        EnvironmentFault: The driver is not there.
    """
    return _or_fault(_all)


def _all() -> list[Mapping[str, Json]]:
    pynvml.nvmlInit()
    return [_described(pynvml.nvmlDeviceGetHandleByIndex(index)) for index in range(pynvml.nvmlDeviceGetCount())]


def _described(handle: Any) -> Mapping[str, Json]:
    return {
        "name": pynvml.nvmlDeviceGetName(handle),
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "arch": "sm_{}{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(handle)),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }


def _opened(uuid: str) -> Any:
    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetHandleByUUID(uuid)


def _or_fault(ask: Callable[[], Value]) -> Value:
    try:
        return ask()
    except pynvml.NVMLError as error:
        reason = f"NVML: {error}. A GPU is measured through its driver. See: passsearch doctor"
        raise EnvironmentFault(reason) from error
