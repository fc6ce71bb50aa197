"""Coverage of intervals, and the rate of false claims."""

import numpy as np
import pytest

from passsearch.core import Interval
from passsearch.measure import (
    Ratio,
    is_improvement,
    level_of_looks,
    log_ratio,
    mean_ratio,
    next_value_interval,
    noise_floor,
    process_ratio,
)


def test_the_fastest_of_interleaved_samples_is_compared() -> None:
    drift = np.linspace(1, 3, 30)
    assert np.exp(log_ratio(list(0.030 * drift), list(0.025 * drift))) == pytest.approx(1.2)


def test_rounds_after_an_artifact_has_left_do_not_count() -> None:
    assert np.exp(log_ratio([0.30, 0.30, 0.15], [0.25, 0.25])) == pytest.approx(1.2)


def test_the_intervals_of_all_looks_hold_together() -> None:
    rng, looks, hits = np.random.default_rng(0), 7, 0
    for _ in range(400):
        values = list(rng.normal(0.05, 0.1, 9))
        intervals = [mean_ratio(values[: 3 + look], level=level_of_looks(looks)).interval for look in range(looks)]
        hits += all(interval.low <= np.exp(0.05) <= interval.high for interval in intervals)
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


def test_a_hundredfold_gain_needs_few_processes_and_a_small_one_many() -> None:
    rng = np.random.default_rng(2)
    noise = list(rng.normal(0, 0.01, 60))
    level = level_of_looks(7)

    def improves(gain: float, processes: int) -> bool:
        return is_improvement(mean_ratio([gain + value for value in noise[:processes]], level=level), floor=0.01)

    assert improves(np.log(100), 3)
    assert not improves(0.02, 3) and improves(0.02, 60)


def test_the_process_is_the_repetition() -> None:
    rng = np.random.default_rng(3)
    rounds = [[list(1.05 * np.exp(rng.normal(0, 0.01, 8))), list(np.exp(rng.normal(0, 0.01, 8)))] for _ in range(11)]
    ratio = process_ratio(rounds)
    assert ratio.value == pytest.approx(1.05, abs=0.01) and is_improvement(ratio, floor=0.0)
    assert not is_improvement(process_ratio(rounds[:1]), floor=0.0)


def test_the_interval_over_processes_covers_where_some_of_them_are_slow() -> None:
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(1000):
        luck = rng.normal(0, 0.01, 12) + 0.15 * (rng.random(12) < 0.1) - 0.15 * (rng.random(12) < 0.1)
        interval = mean_ratio(list(luck)).interval
        hits += interval.low <= 1.0 <= interval.high
    assert hits / 1000 >= 0.94


def test_the_interval_of_the_next_value_covers_what_sets_it_apart() -> None:
    rng, hits, without = np.random.default_rng(5), 0, 0
    for _ in range(1000):
        values, value = rng.normal(0.0, 0.02, 6), rng.normal(0.0, 0.02) + rng.normal(0.0, 0.03)
        _, interval = next_value_interval(values, other_deviation=0.03)
        hits += interval.low <= value <= interval.high
        _, narrow = next_value_interval(values)
        without += narrow.low <= value <= narrow.high
    # More than 95 % of 1000, because the deviation that is known is treated as one that was estimated.
    assert 950 <= hits <= 995 and without < 900
