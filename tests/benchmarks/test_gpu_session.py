"""What is to be done on a GPU machine, done on the processor."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from passsearch.toolchain import Toolchain

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "gpu_session.py"
METRICS = {"throughput_per_s", "latency_s", "compile_s", "power_w", "energy_j", "memory_bytes", "temperature_c"}


def session(toolchain: Toolchain, out: Path, *options: str) -> dict[str, object]:
    command = [sys.executable, str(SCRIPT), "bert_tiny", "--toolchain", toolchain.name, "--out", str(out), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, object] = json.loads(out.read_text())
    return told


@pytest.mark.slow
def test_every_metric_of_default_and_tuned_is_read_or_null_with_a_reason(relax: Toolchain, tmp_path: Path) -> None:
    told = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "4")
    network = told["networks"]["bert_tiny"]  # type: ignore[index]
    for row in (network["default"], network["tuned"]):
        assert row.keys() >= METRICS and row["throughput_per_s"] > 0 and row["compile_s"] > 0
        assert all(row[metric] is not None or row["unavailable"][metric] for metric in METRICS)
    assert network["verdict"]["noise_floor"] is not None
    assert told["tests"].keys() & {"passed", "skipped"}  # type: ignore[attr-defined]


@pytest.mark.toolchain
def test_a_network_there_is_no_time_for_is_said_to_be_unread(relax: Toolchain, tmp_path: Path) -> None:
    told = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "0")
    assert "were left" in told["networks"]["bert_tiny"]["unavailable"]  # type: ignore[index]
    assert "did not end" in told["tests"]["unavailable"]  # type: ignore[index]
