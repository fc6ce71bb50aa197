"""What is read off the loads of one artifact: how many are misplaced, and how much the others differ for good."""

import random
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import placement

    return placement


def process(*speeds: float, noise: float = 0.0, seed: int = 0, rounds: int = 6) -> list[list[float]]:
    rng = random.Random(seed)
    drift = [rng.uniform(0.9, 1.1) for _ in range(rounds)]
    return [[0.05 * speed * slow * (1 + rng.gauss(0, noise)) for slow in drift] for speed in speeds]


def test_misplaced_loads_are_counted(benchmark: Any) -> None:
    rows = [benchmark.row(process(1.0, 1.15, 1.0, 1.0)), benchmark.row(process(1.0, 1.0, 1.0, 1.0))]
    found = benchmark.summary(rows)
    assert (found["loads"], found["misplaced"], found["processes_with_any"]) == (8, 1, 1)
    assert found["misplaced_mean"] == found["largest"] == pytest.approx(0.15, abs=1e-3)
    assert found["both_of_two_share"] == 0.0
    assert found["rest_sd"] == pytest.approx(0.0, abs=1e-4)


def test_noise_of_rounds_is_no_placement(benchmark: Any) -> None:
    rng = random.Random(1)
    luck = [[1 + rng.gauss(0, 0.005) for _ in range(6)] for _ in range(100)]
    equal = [benchmark.row(process(*[1.0] * 6, noise=0.01, seed=seed)) for seed in range(100)]
    placed = [benchmark.row(process(*each, noise=0.01, seed=seed)) for seed, each in enumerate(luck)]
    assert benchmark.summary(equal)["rest_sd"] < 0.002
    assert benchmark.summary(placed)["rest_sd"] == pytest.approx(0.005, abs=0.001)


def test_the_summary_is_said_in_words(benchmark: Any) -> None:
    rows = [benchmark.row(process(1.0, 1.15, 1.15, 1.0))]
    said = benchmark.table({"processes": rows, "summary": benchmark.summary(rows)})
    assert "| 1 | +0.0 % | +15.0 % | +15.0 % | +0.0 % |" in said
    assert "2 of 4 loads" in said
