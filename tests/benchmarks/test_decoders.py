"""``benchmarks/decoders.py`` measures what has no file, and sets engines beside TVM's default."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ENGINES = {
    "tvm default": {"median_s": 0.5},
    "tvm schedule-cpu": {"median_s": 0.02},
    "torch": {"failure": "not installed"},
}


@pytest.fixture
def benchmark(load_benchmark: Callable[[str], Any]) -> Any:
    return load_benchmark("decoders")


def test_measured_networks_are_not_measured_again(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "llama.json").write_text(json.dumps({"engines": ENGINES}))
    assert benchmark.main(["--networks", "llama", "--results", str(tmp_path), "--toolchain", "absent"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| llama | tvm default | 500.0 | 256.0 | 1.0 |",
        "| llama | tvm schedule-cpu | 20.0 | 6400.0 | 25.0 |",
    ]


def test_a_network_without_a_file_is_measured(benchmark: Any, tmp_path: Path) -> None:
    assert benchmark.main(["--networks", "llama", "--results", str(tmp_path), "--toolchain", "absent"]) == 1
    assert not (tmp_path / "llama.json").exists()


def test_every_network_is_one_of_the_zoo(benchmark: Any) -> None:
    from passsearch.frontends.zoo import NETWORKS

    assert set(benchmark.TOKENS) <= set(NETWORKS)
