"""``benchmarks/speed/against_engines.py`` times TVM's artifacts side by side, and says why an engine has no result."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from passsearch.engines import Comparison, EngineFailure, EnginePlan, EngineRecord, EngineSpec
from passsearch.toolchain import Toolchain

QUICK = ("--processes", "2", "--rounds", "2", "--visit", "0.01", "--pause", "0.01")
ENGINES_PYTHON = os.environ.get("PASSSEARCH_ENGINES_PYTHON")


@pytest.fixture
def benchmark(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("speed.against_engines")


def run(benchmark: Any, folder: Path, *arguments: str) -> dict[str, Any]:
    """Measure one network and return its document."""
    assert benchmark.main([*arguments, *QUICK, "--results", str(folder)]) == 0
    document: dict[str, Any] = json.loads((folder / f"{arguments[0]}.json").read_text())
    return document


@pytest.mark.slow
def test_tvm_without_other_engines(
    benchmark: Any, relax: Toolchain, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = run(benchmark, tmp_path, "resnet_tiny", "--toolchain", relax.name, "--sequences", "schedule-cpu")
    rows = document["engines"]
    assert set(rows) == {"tvm default", "tvm schedule-cpu"}
    for row in rows.values():
        assert row["deviation"] <= document["plan"]["limit"]
        assert [len(visits) for visits in row["visits"]] == [2, 2]
        assert row["compile_s"] > 0
        assert row["threads"] == 2
    anchor = "throughput of tvm schedule-cpu"
    assert rows["tvm schedule-cpu"][anchor]["by fastest"]["ratio"] == 1.0
    low, high = rows["tvm default"][anchor]["by fastest"]["interval"]
    assert low < rows["tvm default"][anchor]["by fastest"]["ratio"] < high
    assert "| tvm schedule-cpu |" in capsys.readouterr().out


@pytest.mark.skipif(not ENGINES_PYTHON, reason="PASSSEARCH_ENGINES_PYTHON names no interpreter with the engines")
@pytest.mark.parametrize("network", ["resnet_tiny", "unet_tiny", "bert_tiny", "vit_tiny", "gpt2_tiny"])
def test_other_engines_compute_the_same_network(benchmark: Any, relax: Toolchain, network: str, tmp_path: Path) -> None:
    engines = ("--engines-python", str(ENGINES_PYTHON), "--engines", "onnxruntime,openvino,torch")
    options = ("--toolchain", relax.name, "--sequences", "schedule-cpu")
    rows = run(benchmark, tmp_path, network, *engines, *options)["engines"]
    assert len(rows) == 5
    assert [row["failure"] for row in rows.values() if "failure" in row] == []


def test_an_engine_that_is_not_installed_is_a_failure_with_its_reason(benchmark: Any, tmp_path: Path) -> None:
    absent = EngineSpec("absent", "absent_engine", Path(sys.executable), tmp_path / "network.onnx")
    with pytest.raises(EngineFailure, match=r"absent: ModuleNotFoundError: No module named 'absent_engine'"):
        benchmark.compare([], reference=absent, types={}, plan=EnginePlan(), folder=tmp_path)


def test_a_failure_is_a_row_of_the_table(benchmark: Any) -> None:
    first, second = (
        EngineSpec(name, "adapters.onnxruntime", Path("python"), Path("x.onnx")) for name in ("onnxruntime", "new")
    )
    good = EngineRecord(first, [{"open_s": 0.5, "threads": 2}], [0.02], [10**6], [1e-6], [[[0.02, 0.01], [0.03]]])
    rows = benchmark.rows(
        Comparison((good, EngineRecord(second, failure="no kernel")), ()), plan=EnginePlan(processes=1), sequence="tvm"
    )
    document = {"network": "x", "plan": {"threads": 2}, "date": "today", "engines": rows}
    lines = benchmark.table(document).splitlines()
    assert lines[-2] == "| onnxruntime | 20.00 | 10.00 | 1.00 | 0.50 | 0.50 | 1e-06 |"
    assert lines[-1].startswith("| new | failed: no kernel |")
