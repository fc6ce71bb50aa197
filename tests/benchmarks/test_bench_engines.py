"""The plan of the benchmark of engines, and its table of what was measured and what was not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def benchmark(load_benchmark: Callable[[str], Any]) -> Any:
    """The benchmark as a module."""
    return load_benchmark("speed.bench_engines")


def test_the_plan_has_the_winner_of_a_run_where_there_is_one(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpt2").mkdir()
    options = ["--plan", "--results", str(tmp_path), "--tuned", f"{tmp_path}/{{network}}"]
    assert benchmark.main(["resnet50", "gpt2", *options]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["resnet50", "gpt2"]
    assert [f"relax:{tmp_path}/gpt2" in line for line in lines] == [False, True]
    assert all("xla" in line and "relay:O3" in line for line in lines)


def test_the_tables_have_engines_without_a_result(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measured = {
        "engine": "openvino",
        "batch": 1,
        "latency_s": {"median": 0.02, "interval": [0.01, 0.03]},
        "ratio": {"by fastest": {"ratio": 0.5, "interval": [0.4, 0.6]}},
        "together": {"2": {"inferences_per_s": {"median": 60.0, "interval": [50.0, 70.0]}}},
        "compile_s": 0.5,
        "memory_bytes": 12_000_000,
    }
    friction = {"openvino": {"value": 0.9, "interval": [0.8, 1.0]}}
    onnxruntime = {**measured, "engine": "onnxruntime"}
    rows = [measured, {**benchmark.DEFAULT, "batch": 1}, onnxruntime]
    document = {"model": {"name": "resnet50"}, "batches": [1], "rows": rows}
    (tmp_path / "resnet50.json").write_text(json.dumps({**document, "friction": friction}))
    (tmp_path / "gpt2.json").write_text(
        json.dumps({"model": {"name": "gpt2"}, "batches": [], "rows": [], "friction": {}})
    )
    assert benchmark.main(["resnet50", "gpt2", "--table", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| resnet50 | 1 | openvino | 20.00 | 0.50 [0.40, 0.60] | 60.0 | 0.5 | 12 |"
    assert "seconds to minutes" in lines[3]
    assert benchmark.main(["resnet50", "gpt2", "--friction", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| openvino | 0.90 [0.80, 1.00] | – |"]
    picture = tmp_path / "friction.svg"
    assert benchmark.main(["resnet50", "--friction", "--draw", str(picture), "--results", str(tmp_path)]) == 0
    assert "resnet50: openvino" in picture.read_text()
    capsys.readouterr()
    assert benchmark.main(["resnet50", "--ratios", "--results", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()[2:]
    assert line == "| resnet50 | 1 |  |  |  | 0.50 [0.40, 0.60] |  |  |  |  | 20.0 |"
