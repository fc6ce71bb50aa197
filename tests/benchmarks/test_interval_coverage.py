"""Confirmations whose true ratio is known: their intervals hold it as often as they say, and no gain is made up."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest

from passsearch.measure import LEVEL

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
REPETITIONS = 200
NOISES = [("throughput", noise) for noise in (0.003, 0.006, 0.012)] + [
    ("compile_time", noise) for noise in (0.01, 0.03, 0.06)
]


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, Any]]:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import interval_coverage

    shapes = {"throughput": interval_coverage.twin_noise(), "compile_time": interval_coverage.compile_noise()}
    return lambda objective, **options: interval_coverage.simulate(objective, shape=shapes[objective], **options)


@pytest.mark.parametrize(("objective", "noise"), NOISES)
@pytest.mark.parametrize("gain", [0.0, 0.05])
def test_intervals_hold_the_true_ratio_although_they_decide_when_to_stop(
    simulate: Callable[..., Mapping[str, Any]], objective: str, noise: float, gain: float
) -> None:
    row = simulate(objective, gain=gain, noise=noise, repetitions=REPETITIONS)
    assert binomtest(row["covered"], REPETITIONS, LEVEL, alternative="less").pvalue > 0.01
    if gain == 0.0:
        assert binomtest(row["claimed"], REPETITIONS, 0.01, alternative="greater").pvalue > 0.01


def test_a_hundredfold_gain_is_claimed_after_the_fewest_compiles_though_these_differ_by_three_percent(
    simulate: Callable[..., Mapping[str, Any]],
) -> None:
    row = simulate("throughput", gain=99.0, noise=0.012, repetitions=20)
    assert row["claimed"] == 20
    assert row["compiles_mean"] == 3
