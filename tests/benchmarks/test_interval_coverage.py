"""Intervals of confirmations whose truth is known: the project's rule holds what it promises."""

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
def test_the_rule_holds_the_truth_and_claims_nothing(benchmark: Any, scenario: int) -> None:
    noise = list(benchmark.SCENARIOS.values())[scenario]
    found = benchmark.intervals(noise, REPETITIONS, bootstraps=False)[benchmark.RULE]
    assert binomtest(benchmark.covered(found), REPETITIONS, LEVEL, alternative="less").pvalue > 0.01
    assert benchmark.claimed(found, 0.0) <= (1 - LEVEL) / 2 * REPETITIONS


def test_every_bootstrap_answers_with_an_interval(benchmark: Any) -> None:
    found = benchmark.intervals(benchmark.SCENARIOS["compiles differ by 3 %"], 3)
    assert all(each.low < each.high for method in found.values() for each in method)
    assert list(found) == [benchmark.RULE, *benchmark.BOOTSTRAPS]
