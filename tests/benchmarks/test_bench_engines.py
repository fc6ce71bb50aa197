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


def test_the_winner_of_a_run_is_measured_where_there_is_one(benchmark: Any, tmp_path: Path) -> None:
    (tmp_path / "gpt2").mkdir()
    names = {network: benchmark.engines(network, tuned=f"{tmp_path}/{{network}}") for network in ("resnet50", "gpt2")}
    assert [f"relax:{tmp_path}/gpt2" in each for each in names.values()] == [False, True]
    assert all("xla" in each and "relay:O3" in each for each in names.values())


def test_the_tables_have_engines_without_a_result(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ratio = {"by fastest": {"ratio": 0.5, "interval": [0.4, 0.6]}}
    measured = {"engine": "openvino", "batch": 1, "latency_s": {"median": 0.02}, "ratio": ratio}
    rows = [measured, {"engine": "xla", "batch": 1, "failure": "no jax"}, {**measured, "engine": "onnxruntime"}]
    document = {"model": {"name": "resnet50"}, "batches": [1], "rows": rows}
    friction = {"openvino": {"value": 0.9, "interval": [0.8, 1.0]}}
    (tmp_path / "resnet50.json").write_text(json.dumps({**document, "friction": friction}))
    (tmp_path / "gpt2.json").write_text(
        json.dumps({"model": {"name": "gpt2"}, "batches": [], "rows": [], "friction": {}})
    )
    assert benchmark.main(["resnet50", "gpt2", "--table", "--results", str(tmp_path)]) == 0
    (line,) = capsys.readouterr().out.splitlines()[2:]
    assert line == "| resnet50 | 1 |  |  |  | 0.50 [0.40, 0.60] |  |  |  | no jax | 20.0 |"
    assert benchmark.main(["resnet50", "gpt2", "--friction", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| openvino | 0.90 [0.80, 1.00] | – |"]
    picture = tmp_path / "friction.svg"
    assert benchmark.main(["resnet50", "--friction", "--draw", str(picture), "--results", str(tmp_path)]) == 0
    assert "resnet50: openvino" in picture.read_text()
