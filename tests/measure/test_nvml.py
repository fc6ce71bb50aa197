"""NVML without a GPU: its real names and signatures with invented answers."""

import os
import time
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from passsearch.errors import EnvironmentFault
from passsearch.measure import nvml, probe, sensors

UUIDS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
"""UUIDs of the GPUs of the fixture ``nvml_library``."""


def process(pid: int, used_bytes: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=used_bytes)


def test_readings_are_in_joules_watts_and_degrees(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [
        process(os.getpid(), 7 << 20),
        process(1, 9 << 20),
    ]
    reading = nvml.NvmlMeter(UUIDS[1]).read()
    assert reading.energy_j == pytest.approx(123.456) and reading.power_w == pytest.approx(250.0)
    assert reading.temperature_c == 61.0
    assert reading.memory_bytes == 7 << 20 and reading.foreign == 1
    assert reading.clock_hz == 1_410_000_000
    assert reading.slowdowns == ()  # a power cap is normal for a busy GPU
    nvml_library.nvmlDeviceGetPowerUsage.assert_called_with(1)


def test_reasons_for_reduced_clocks_are_reported(nvml_library: Any) -> None:
    bits = pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown | pynvml.nvmlClocksEventReasonSwThermalSlowdown
    nvml_library.nvmlDeviceGetCurrentClocksEventReasons.return_value = bits
    assert nvml.NvmlMeter(UUIDS[0]).read().slowdowns == ("power brake", "too hot (driver)")


def test_a_metric_that_the_gpu_lacks_is_none_with_the_reason(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetTotalEnergyConsumption.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    meter = nvml.NvmlMeter(UUIDS[0])
    assert meter.read().energy_j is None and meter.read().power_w == 250.0
    assert meter.unavailable == {"energy_j": "NVML: Not Supported"}


def test_processes_listed_by_the_hosts_ids_are_not_interpreted(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [process(1, 9 << 20)]
    reading = nvml.NvmlMeter(UUIDS[0]).read()
    assert reading.memory_bytes is None and reading.foreign is None


def test_memory_that_the_driver_does_not_report_is_none(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = [process(os.getpid(), None)]
    assert nvml.NvmlMeter(UUIDS[0]).read().memory_bytes is None


@pytest.mark.usefixtures("nvml_library")
@pytest.mark.parametrize(
    ("visible", "index", "uuid"),
    [(None, 1, UUIDS[1]), ("1", 0, UUIDS[1]), ("1,0", 1, UUIDS[0]), ("GPU-2222", 0, UUIDS[1])],
)
def test_a_gpu_is_selected_by_its_uuid(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, index: int, uuid: str
) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    detection = probe(f"cuda:{index}")
    assert detection.device["uuid"] == uuid and detection.meter is not None and detection.unavailable == {}


@pytest.mark.usefixtures("nvml_library")
def test_a_missing_gpu_is_the_reason_for_every_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    detection = probe("cuda:0")
    assert detection.meter is None and set(detection.unavailable) == set(sensors.METRICS)
    assert "no GPU 0" in detection.unavailable["power_w"]


def test_a_missing_driver_is_the_environments_fault(nvml_library: Any) -> None:
    nvml_library.nvmlInit.side_effect = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    with pytest.raises(EnvironmentFault, match="NVML Shared Library Not Found"):
        nvml.list_gpus()


@pytest.mark.gpu
def test_a_real_gpu_is_read() -> None:
    detection = probe("cuda:0")
    if detection.meter is None:
        pytest.skip(detection.unavailable["power_w"])
    first = detection.meter.read()
    time.sleep(0.5)
    second = detection.meter.read()
    assert str(detection.device["uuid"]).startswith("GPU-")
    assert second.temperature_c is not None and 0 < second.temperature_c < 120
    assert second.power_w is not None and second.power_w > 1
    assert first.energy_j is not None and second.energy_j is not None and second.energy_j > first.energy_j
