"""NVIDIA GPUs by NVML (package nvidia-ml-py). The only importer of pynvml."""

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pynvml

from passsearch.core import Json
from passsearch.errors import EnvironmentFault
from passsearch.measure.gpu_processes import GpuProcesses, has_drivers_ids
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


SLICE = "MIG-"
"""Begin of the UUID of a part of a GPU, which CUDA treats as a GPU of its own (Multi-Instance GPU)."""

OF_WHOLE_CARD = ("power_w", "energy_j", "utilisation")
"""Metrics that NVML has for whole cards only, so that they say nothing of one slice."""


class NvmlMeter:
    """The sensors of one GPU, or of the card that a slice of a GPU is on.

    Attributes:
        unavailable: Reason why a metric cannot be read, by metric.
        reports_disturbances: Always true: the driver reports slowdowns and foreign processes.
    """

    def __init__(
        self, uuid: str, *, clock: Callable[[], float] = time.monotonic, knows_ids: bool | None = None
    ) -> None:
        """Read every metric once; a metric that fails is unavailable from then on.

        Args:
            uuid: The UUID, ``GPU-…`` or ``MIG-…``; see ``list_gpus``. An index would not do: CUDA and NVML count
                differently.
            clock: Returns the monotonic time in seconds.
            knows_ids: True if the driver lists processes by the ids of this namespace; detected if ``None``.

        Raises:
            EnvironmentFault: The driver does not respond or does not know the GPU.
        """
        self._gpu, self._handle = _call_driver(lambda: _open_gpu(uuid))
        self._clock = clock
        self._processes = GpuProcesses(knows_ids=has_drivers_ids() if knows_ids is None else knows_ids)
        self.unavailable: dict[str, str] = {}
        if uuid.startswith(SLICE):
            reason = "this is a slice of a GPU, and the card's sensor counts the other slices too"
            self.unavailable |= dict.fromkeys(OF_WHOLE_CARD, reason)
        # NVML counts millijoules, milliwatts and megahertz.
        self._energy_j = self._sensor(
            "energy_j", lambda: 1e-3 * pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        )
        self._power_w = self._sensor("power_w", lambda: 1e-3 * pynvml.nvmlDeviceGetPowerUsage(self._handle))
        self._temperature_c = self._sensor("temperature_c", self._read_temperature_c)
        self._utilisation = self._sensor(
            "utilisation", lambda: 1e-2 * pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu
        )
        self._foreign = self._sensor("foreign", self._count_foreign)
        self._slowdowns = self._sensor("throttled", self._read_slowdowns)
        self._clock_hz = self._sensor("clocks", self._read_clock_hz)
        self.reports_disturbances = True

    def begin(self) -> None:
        """Remember which processes are on the GPU before ours are."""
        with contextlib.suppress(pynvml.NVMLError):
            self._processes.begin(self._list_processes())

    def read(self) -> SensorReading:
        """Read all sensors now; a sensor that fails this time is ``None`` in this reading."""
        return SensorReading(
            self._clock(),
            energy_j=self._energy_j(),
            power_w=self._power_w(),
            temperature_c=self._temperature_c(),
            utilisation=self._utilisation(),
            slowdowns=self._slowdowns(),
            foreign=self._foreign(),
            clock_hz=self._clock_hz(),
        )

    def _sensor(self, metric: str, read: Callable[[], Value]) -> Callable[[], Value | None]:
        """Return a function that reads one sensor and never fails."""
        if metric in self.unavailable:
            return lambda: None
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

    def _list_processes(self) -> list[int]:
        return [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(self._gpu)]

    def _count_foreign(self) -> int | None:
        return self._processes.count_foreign(self._list_processes())


def list_gpus() -> list[Mapping[str, Json]]:
    """Return name, UUID, memory, architecture (``sm_80``), driver and card of every GPU, in NVML's order (by bus id).

    A GPU that is divided into slices stands for its slices: CUDA cannot use it as a whole. ``card`` is the number of
    the card. Cards that this process may not use, or that are lost, are left out.

    Raises:
        EnvironmentFault: The driver does not respond, or every card refuses.
    """
    return _call_driver(_describe_gpus)


def _describe_gpus() -> list[Mapping[str, Json]]:
    pynvml.nvmlInit()
    gpus: list[Mapping[str, Json]] = []
    refusal = None
    for number in range(pynvml.nvmlDeviceGetCount()):
        try:
            card = pynvml.nvmlDeviceGetHandleByIndex(number)
            gpus += [{**_describe_gpu(gpu, card), "card": number} for gpu in (_slices(card) or [card])]
        except pynvml.NVMLError as error:  # noqa: PERF203 -- a machine has a few cards
            refusal = error
    if refusal is not None and not gpus:
        raise refusal
    return gpus


def _slices(card: Any) -> list[Any]:
    """Return the slices that a GPU is divided into; empty for most GPUs."""
    slices: list[Any] = []
    try:
        if not pynvml.nvmlDeviceGetMigMode(card)[0]:
            return slices
        number = pynvml.nvmlDeviceGetMaxMigDeviceCount(card)
    except pynvml.NVMLError:  # this GPU has no such mode
        return slices
    for index in range(number):
        with contextlib.suppress(pynvml.NVMLError):  # numbers without a slice
            slices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(card, index))
    return slices


def _describe_gpu(handle: Any, card: Any) -> Mapping[str, Json]:
    return {
        "name": pynvml.nvmlDeviceGetName(handle),
        "uuid": pynvml.nvmlDeviceGetUUID(handle),
        "memory_bytes": int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        "arch": "sm_{}{}".format(*pynvml.nvmlDeviceGetCudaComputeCapability(card)),
        "driver": pynvml.nvmlSystemGetDriverVersion(),
    }


def _open_gpu(uuid: str) -> tuple[Any, Any]:
    """Return a GPU, and the card with its sensors, which is the same unless the GPU is a slice."""
    pynvml.nvmlInit()
    gpu = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    is_slice = uuid.startswith(SLICE)
    return gpu, pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(gpu) if is_slice else gpu


def _call_driver(call: Callable[[], Value]) -> Value:
    try:
        return call()
    except pynvml.NVMLError as error:
        reason = f"NVML: {error}. A GPU is measured through its driver. See: passsearch doctor"
        raise EnvironmentFault(reason) from error
