"""Coverage of intervals, and the rate of false claims."""

import numpy as np
import pytest

from passsearch.core import Interval
from passsearch.measure import (
    Ratio,
    is_improvement,
    log_ratio,
    mean_ratio,
    median_interval,
    median_ratio,
    noise_floor,
    process_ratio,
)


def test_the_fastest_of_interleaved_samples_is_compared() -> None:
    drift = np.linspace(1, 3, 30)
    assert np.exp(log_ratio(list(0.030 * drift), list(0.025 * drift))) == pytest.approx(1.2)


def test_rounds_after_an_artifact_has_left_do_not_count() -> None:
    assert np.exp(log_ratio([0.30, 0.30, 0.15], [0.25, 0.25])) == pytest.approx(1.2)


def test_the_interval_of_the_median_covers_at_its_level() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        interval = median_ratio(list(rng.normal(0.05, 0.1, 9))).interval
        hits += interval.low <= np.exp(0.05) <= interval.high
    assert hits / 400 >= 0.93


def test_equal_binaries_are_rarely_called_improved() -> None:
    rng = np.random.default_rng(1)
    wins = sum(is_improvement(mean_ratio(list(rng.normal(0, 0.02, 4))), floor=0.0) for _ in range(1000))
    assert wins <= 25  # one tail of a 95 % interval has 2.5 %; the least gain of 1 % lowers that


def test_one_repetition_proves_nothing() -> None:
    assert not is_improvement(mean_ratio([0.5]), floor=0.0)


def test_a_gain_below_the_noise_floor_is_no_improvement() -> None:
    ratio = Ratio(1.05, Interval(1.03, 1.07))
    assert is_improvement(ratio, floor=0.02)
    assert not is_improvement(ratio, floor=0.04)
    assert noise_floor(Ratio(1.0, Interval(0.95, 1.01))) == pytest.approx(1 / 0.95 - 1)


def test_the_interval_contains_the_median() -> None:
    interval = median_interval([1.0, 2.0, 3.0, 4.0, 100.0])
    assert interval.low <= 3.0 <= interval.high


def test_one_slow_process_does_not_change_the_verdict() -> None:
    rng = np.random.default_rng(2)
    usual = [[list(1.05 * np.exp(rng.normal(0, 0.01, 8))), list(np.exp(rng.normal(0, 0.01, 8)))] for _ in range(11)]
    slow = [[1.05] * 8, [1.25] * 8]
    ratio = process_ratio([*usual, slow])
    assert ratio.value == pytest.approx(1.05, abs=0.01)
    assert is_improvement(ratio, floor=0.0)


def test_too_few_processes_have_no_interval() -> None:
    few = median_ratio([0.05] * 5)
    assert few.interval.low == 0.0 and not is_improvement(few, floor=0.0)
    assert is_improvement(median_ratio([0.05] * 6), floor=0.0)


def test_the_interval_over_processes_covers_for_any_distribution() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(1000):
        luck = rng.normal(0, 0.01, 12) + 0.15 * (rng.random(12) < 0.1) - 0.15 * (rng.random(12) < 0.1)
        interval = median_ratio(list(luck)).interval
        hits += interval.low <= 1.0 <= interval.high
    assert hits / 1000 >= 0.94
