"""NVML without a GPU: its real names and signatures with invented answers."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pynvml
import pytest

from passsearch.errors import EnvironmentFault
from passsearch.measure import nvml, probe, sensors
from passsearch.measure.gpu_processes import has_drivers_ids

UUIDS = ("GPU-11111111-aaaa", "GPU-22222222-bbbb")
"""UUIDs of the GPUs of the fixture ``nvml_library``."""


SLICE = "MIG-33333333-cccc"


def processes(*pids: int) -> list[Any]:
    return [SimpleNamespace(pid=pid) for pid in pids]


@pytest.fixture
def child() -> Iterator[int]:
    """The id of a process that a process of ours started."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        yield pid
        os.kill(pid, signal.SIGKILL)
        parent.kill()


def test_readings_are_in_joules_watts_and_degrees(nvml_library: Any) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = processes(os.getpid(), 1)
    reading = nvml.NvmlMeter(UUIDS[1], knows_ids=True).read()
    assert reading.energy_j == pytest.approx(123.456) and reading.power_w == pytest.approx(250.0)
    assert reading.temperature_c == 61.0
    assert reading.utilisation == pytest.approx(0.97) and reading.foreign == 1
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


def test_processes_that_ours_started_are_not_foreign(nvml_library: Any, child: int) -> None:
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = processes(os.getpid(), child, 1)
    assert nvml.NvmlMeter(UUIDS[0], knows_ids=True).read().foreign == 1


def test_a_sampler_looks_up_each_process_once(nvml_library: Any, child: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At every reading it would take the processor from the thread that launches kernels."""
    opened: list[str] = []
    monkeypatch.setattr(psutil._pslinux, "open_binary", count_calls(psutil._pslinux.open_binary, opened))
    nvml_library.nvmlDeviceGetComputeRunningProcesses.return_value = processes(os.getpid(), child, 1)
    meter = nvml.NvmlMeter(UUIDS[0], knows_ids=True)
    meter.read()
    assert opened  # the files of /proc are read by this function
    opened.clear()
    for _ in range(20):
        meter.read()
    assert not opened


def count_calls(function: Callable[..., Any], names: list[str]) -> Callable[..., Any]:
    def call(name: str, *arguments: Any) -> Any:
        names.append(name)
        return function(name, *arguments)

    return call


def test_ids_of_the_host_are_told_apart_by_the_time_that_they_appear(nvml_library: Any) -> None:
    """In a container the ids say nothing: 7 may even be one of its own processes."""
    listed = nvml_library.nvmlDeviceGetComputeRunningProcesses
    listed.return_value = processes(7)
    meter = nvml.NvmlMeter(UUIDS[0], knows_ids=False)
    meter.begin()
    assert meter.read().foreign is None  # ours is not listed yet, and may never be
    listed.return_value = processes(7, 4711)
    assert meter.read().foreign == 1
    listed.return_value = processes(4711)
    assert meter.read().foreign == 0
    meter.begin()
    assert meter.read().foreign is None


def test_a_container_that_hides_all_processes_reports_nothing(nvml_library: Any) -> None:
    meter = nvml.NvmlMeter(UUIDS[0], knows_ids=False)
    meter.begin()
    assert meter.read().foreign is None and not meter.read().is_disturbed


@pytest.mark.parametrize(("target", "knows"), [("pid:[4026531836]", True), ("pid:[4026532201]", False)])
def test_a_container_is_detected_by_its_namespace(tmp_path: Path, target: str, knows: bool) -> None:
    (tmp_path / "pid").symlink_to(target)
    assert has_drivers_ids(tmp_path / "pid") is knows
    assert has_drivers_ids(tmp_path / "missing")


@pytest.fixture
def sliced(nvml_library: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine whose second GPU is divided; its one slice has number 3 and the handle 20."""

    def slice_of(card: int, index: int) -> int:
        if (card, index) != (1, 3):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return 20

    nvml_library.nvmlDeviceGetMigMode.side_effect = lambda card: [card, card]
    nvml_library.nvmlDeviceGetMaxMigDeviceCount.return_value = 7
    nvml_library.nvmlDeviceGetMigDeviceHandleByIndex.side_effect = slice_of
    nvml_library.nvmlDeviceGetUUID.side_effect = {0: UUIDS[0], 1: UUIDS[1], 20: SLICE}.__getitem__
    nvml_library.nvmlDeviceGetHandleByUUID.side_effect = {UUIDS[0]: 0, UUIDS[1]: 1, SLICE: 20}.__getitem__
    nvml_library.nvmlDeviceGetDeviceHandleFromMigDeviceHandle.side_effect = {20: 1}.__getitem__
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SLICE)
    return nvml_library


def test_a_slice_of_a_gpu_is_a_gpu_with_the_architecture_of_its_card(sliced: Any) -> None:
    assert [gpu["uuid"] for gpu in nvml.list_gpus()] == [UUIDS[0], SLICE]
    detection = probe("cuda:0")
    assert detection.device["uuid"] == SLICE and detection.device["arch"] == "sm_80"
    sliced.nvmlDeviceGetCudaComputeCapability.assert_called_with(1)


def test_the_power_of_a_card_is_not_the_power_of_a_slice(sliced: Any) -> None:
    meter = probe("cuda:0").meter
    assert meter is not None
    assert meter.unavailable.keys() == {"power_w", "energy_j", "utilisation"}
    assert all("slice of a GPU" in reason for reason in meter.unavailable.values())
    reading = meter.read()
    assert reading.power_w is reading.energy_j is reading.utilisation is None and reading.temperature_c == 61.0
    sliced.nvmlDeviceGetTemperature.assert_called_with(1, pynvml.NVML_TEMPERATURE_GPU)
    sliced.nvmlDeviceGetComputeRunningProcesses.assert_called_with(20)


def test_a_number_beside_a_divided_card_is_that_of_a_card(sliced: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    sliced.nvmlDeviceGetCount.return_value = 3
    sliced.nvmlDeviceGetUUID.side_effect = {0: UUIDS[0], 1: UUIDS[1], 2: "GPU-3", 20: SLICE}.__getitem__
    sliced.nvmlDeviceGetHandleByUUID.side_effect = {UUIDS[0]: 0, "GPU-3": 2, SLICE: 20}.__getitem__
    for visible, uuid in (("2", "GPU-3"), ("1", SLICE)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert probe("cuda:0").device["uuid"] == uuid


def test_a_card_without_permission_hides_no_other(nvml_library: Any) -> None:
    refusal = pynvml.NVMLError(pynvml.NVML_ERROR_NO_PERMISSION)
    nvml_library.nvmlDeviceGetHandleByIndex.side_effect = [refusal, 1]
    assert probe("cuda:0").device["uuid"] == UUIDS[1]
    nvml_library.nvmlDeviceGetHandleByIndex.side_effect = [refusal, refusal]
    assert "Insufficient Permissions" in probe("cuda:0").unavailable["power_w"]


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
