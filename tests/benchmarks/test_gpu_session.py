"""The measurements of a GPU machine, made on the CPU."""

import json
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from passsearch.measure import Trace, nvml, sensors
from passsearch.toolchain import Toolchain

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_session.py"
METRICS = {"throughput_per_s", "latency_s", "compile_s", "power_w", "energy_j", "memory_bytes", "temperature_c"}


def session(toolchain: Toolchain, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, str(SCRIPT), "bert_tiny", "--toolchain", toolchain.name, "--out", str(out), *options]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr[-2000:]
    document: dict[str, Any] = json.loads(out.read_text())
    return document


@pytest.mark.slow
def test_every_metric_of_default_and_tuned_is_read_or_null_with_a_reason(relax: Toolchain, tmp_path: Path) -> None:
    document = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "4")
    network = document["networks"]["bert_tiny"]
    for row in (network["default"], network["tuned"]):
        assert row.keys() >= METRICS and row["throughput_per_s"] > 0 and row["compile_s"] > 0
        assert all(row[metric] is not None or row["unavailable"][metric] for metric in METRICS)
    assert network["verdict"]["noise_floor"] is not None
    assert document["tests"].keys() & {"passed", "skipped"}


@pytest.mark.toolchain
def test_a_network_without_time_is_unavailable_with_a_reason(relax: Toolchain, tmp_path: Path) -> None:
    document = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "0")
    assert "were left" in document["networks"]["bert_tiny"]["unavailable"]
    assert "did not end" in document["tests"]["unavailable"]


@pytest.mark.slow
def test_the_results_are_the_readings_of_the_gpu_meter(
    relax: Toolchain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recordings: Any,
    nvml_library: Any,
    play: Any,
) -> None:
    """The CPU works; its sensor is a recorded RTX 3090 under load."""
    recording = recordings.load("rtx3090")
    play(recording, lambda: 1.5 + time.monotonic() % 4)
    meter = nvml.NvmlMeter(nvml_library.nvmlDeviceGetUUID(0))
    monkeypatch.setattr(sensors, "_probe_cpu", lambda: sensors.Sensors({"name": "recorded"}, meter.unavailable, meter))
    out = tmp_path / "session.json"
    options = ["bert_tiny", "--toolchain", relax.name, "--out", str(out), "--target", "host", "--minutes", "6"]
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *options])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    network = json.loads(out.read_text())["networks"]["bert_tiny"]
    for row in (network["default"], network["tuned"]):
        assert 415 < row["power_w"]["median"] <= row["power_w"]["max"] < 422
        assert 64 <= row["temperature_c"]["start"] <= row["temperature_c"]["max"] <= 68
        assert row["energy_j"] is None and row["unavailable"]["energy_j"] == "NVML: Not Supported"
        assert 1.9e9 < row["conditions"]["clocks"][0] < 2e9
    trace = Trace.load(out.with_suffix(".trace.jsonl"))
    assert len(trace.readings) > 10 and all(413 < (each.power_w or 0) < 422 for each in trace.readings)
