"""The plan of the benchmark of engines, and its table of what was measured and what was not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def benchmark(load_benchmark: Callable[[str], Any]) -> Any:
    """The benchmark as a module."""
    return load_benchmark("bench_engines")


def test_the_plan_leaves_tvms_default_out_where_it_takes_minutes(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark.main(["resnet50", "gpt2", "--plan", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        *("resnet50, batch 1", "gpt2, batch 1", "resnet50, batch 8", "gpt2, batch 8")
    ]
    assert ["relax:default" in line for line in lines] == [True, False, False, False]
    assert all("xla" in line and "relay:O3" in line for line in lines)


def test_the_table_has_a_line_for_an_engine_without_a_result(
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
    failed = {"engine": "relax:default", "batch": 1, "failure": benchmark.TOO_SLOW}
    document = {"model": {"name": "resnet50"}, "rows": [measured, failed]}
    (tmp_path / "resnet50-1.json").write_text(json.dumps(document))
    assert benchmark.main(["resnet50", "--table", "--results", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "| resnet50 | 1 | openvino | 20.00 | 0.50 [0.40, 0.60] | 60.0 | 0.5 | 12 |"
    assert "tens of seconds to minutes" in lines[3]
