"""NVML as far as it can be tried without a GPU: the real names and signatures, made-up answers."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from passsearch.errors import EnvironmentFault
from passsearch.measure import nvml, probe, sensors

UUIDS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
"""Those of ``nvml_library``."""


def process(pid: int, used_bytes: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=used_bytes)


def test_readings_are_in_joules_watts_and_degrees(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [
        process(os.getpid(), 7 << 20),
        process(1, 9 << 20),
    ]
    found = nvml.NvmlMeter(UUIDS[1]).read()
    assert (found.energy_j, found.power_w, found.temperature_c) == (pytest.approx(123.456), pytest.approx(250.0), 61.0)
    assert found.memory_bytes == 7 << 20 and found.foreign == 1
    assert found.clock_hz == 1_410_000_000
    assert found.slowdowns == ()  # a power cap is how a busy GPU runs
    nvml_library.nvmlDeviceGetPowerUsage.assert_called_with(1)


def test_why_clocks_are_held_down_is_told(nvml_library: Any) -> None:
    bits = pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    nvml_library.nvmlDeviceGetCurrentClocksEventReasons.return_value = bits
    assert nvml.NvmlMeter(UUIDS[0]).read().slowdowns == ("power brake", "too hot (driver)")


def test_a_metric_the_gpu_does_not_have_is_none_with_the_reason(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetTotalEnergyConsumption.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    meter = nvml.NvmlMeter(UUIDS[0])
    assert meter.read().energy_j is None and meter.read().power_w == 250.0
    assert meter.unavailable == {"energy_j": "NVML: Not Supported"}


def test_processes_by_the_hosts_numbers_say_nothing(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [process(1, 9 << 20)]
    found = nvml.NvmlMeter(UUIDS[0]).read()
    assert found.memory_bytes is None and found.foreign is None


def test_memory_the_driver_does_not_tell_is_none(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [process(os.getpid(), None)]
    assert nvml.NvmlMeter(UUIDS[0]).read().memory_bytes is None


@pytest.mark.usefixtures("nvml_library")
@pytest.mark.parametrize(
    ("visible", "index", "uuid"),
    [(None, 1, UUIDS[1]), ("1", 0, UUIDS[1]), ("1,0", 1, UUIDS[0]), ("GPU-2222", 0, UUIDS[1])],
)
def test_a_gpu_goes_by_its_uuid(monkeypatch: pytest.MonkeyPatch, visible: str | None, index: int, uuid: str) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = probe(f"cuda:{index}")
    assert found.device["uuid"] == uuid and found.meter is not None and found.unavailable == {}


@pytest.mark.usefixtures("nvml_library")
def test_a_gpu_that_is_not_there_leaves_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    found = probe("cuda:0")
    assert found.meter is None and set(found.unavailable) == set(sensors.METRICS)
    assert "no GPU 0" in found.unavailable["power_w"]


def test_no_driver_is_the_environments_fault(nvml_library: Any) -> None:
    nvml_library.nvmlInit.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(EnvironmentFault, match="NVML Shared Library Not Found"):
        nvml.gpus()


@pytest.mark.gpu
def test_a_real_gpu_is_read() -> None:
    found = probe("cuda:0")
    if found.meter is None:
        pytest.skip(found.unavailable["power_w"])
    first = found.meter.read()
    time.sleep(0.5)
    second = found.meter.read()
    assert str(found.device["uuid"]).startswith("GPU-")
    assert second.temperature_c is not None and 0 < second.temperature_c < 120
    assert second.power_w is not None and second.power_w > 1
    assert first.energy_j is not None and second.energy_j is not None and second.energy_j > first.energy_j
