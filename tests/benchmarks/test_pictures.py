"""Benchmarks that draw can draw what is committed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_the_composition_is_drawn(load_benchmark: Callable[[str], Any]) -> None:
    networks = json.loads((RESULTS / "composition.json").read_text())["networks"]
    svg = load_benchmark("composition").picture(networks)
    assert svg.startswith("<svg") and "gpt2" in svg


def test_throughput_by_depth_is_drawn(load_benchmark: Callable[[str], Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.argv", ["depth.py", "--draw", str(tmp_path)])
    load_benchmark("depth").main()
    assert {path.name for path in tmp_path.iterdir()} == {
        f"depth-{name}.svg" for name in ("residual", "depthwise", "encoder")
    }


def test_no_network_is_faster_than_the_roofline(load_benchmark: Callable[[str], Any]) -> None:
    rows = json.loads((RESULTS / "relax" / "rooflines.json").read_text())["networks"]
    shares = [int(line.split("|")[4].strip(" %")) for line in load_benchmark("rooflines").table(rows).splitlines()[4:]]
    assert len(shares) == len(rows) == 7
    assert all(50 < share <= 100 for share in shares)


def test_rankings_read_every_committed_file(
    load_benchmark: Callable[[str], Any], monkeypatch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["rankings.py"])
    load_benchmark("rankings").main()
    assert "| networks | 21 |" in capsys.readouterr().out
