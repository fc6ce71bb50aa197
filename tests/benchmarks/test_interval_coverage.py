"""Intervals of confirmations whose true ratio is known: the project's rule covers it as often as it says."""

import sys
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from passsearch.measure import LEVEL

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REPETITIONS = 300


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import interval_coverage

    return interval_coverage


@pytest.mark.parametrize("scenario", range(6))
def test_the_rule_covers_the_true_ratio_and_claims_no_gain(benchmark: Any, scenario: int) -> None:
    noise = list(benchmark.SCENARIOS.values())[scenario]
    intervals = benchmark.draw_intervals(noise, REPETITIONS, bootstraps=False)[benchmark.RULE]
    assert binomtest(benchmark.count_covered(intervals), REPETITIONS, LEVEL, alternative="less").pvalue > 0.01
    assert benchmark.count_claims(intervals, 0.0) <= (1 - LEVEL) / 2 * REPETITIONS


def test_every_bootstrap_returns_an_interval(benchmark: Any) -> None:
    by_method = benchmark.draw_intervals(benchmark.SCENARIOS["compiles differ by 3 %"], 3)
    assert all(interval.low < interval.high for intervals in by_method.values() for interval in intervals)
    assert list(by_method) == [benchmark.RULE, *benchmark.BOOTSTRAPS]
