"""When a comparison calls one pipeline faster than another."""

import math
import random
from collections.abc import Sequence

import pytest

from passsearch.evaluate import ProcessSamples
from passsearch.studies.comparison_records import ComparisonSamples

ROUNDS = 6


def timed(gain: float, *, noise: float, processes: int = 4, late: float = 1.0, seed: int = 0) -> ComparisonSamples:
    """Return samples of a pipeline of a known gain, whose last rounds take ``late`` times as long."""
    rng = random.Random(seed)

    def row(seconds: float, slow: float = 1.0) -> Sequence[float]:
        place = seconds * math.exp(rng.gauss(0, noise))
        return tuple(place * (slow if number >= ROUNDS // 2 else 1.0) for number in range(ROUNDS))

    rows = tuple(ProcessSamples(row(1.0), row(1.0), (row(1 / gain, late),), {}) for _ in range(processes))
    return ComparisonSamples(rows, (), "paired", 0.99, "baseline")


@pytest.mark.parametrize("seed", range(10))
def test_a_large_effect_is_faster_though_no_floor_can_be_estimated(seed: int) -> None:
    samples = timed(200.0, noise=0.3, seed=seed)
    assert samples.is_faster(1) and not samples.is_faster(0, reference=1)


@pytest.mark.parametrize("seed", range(10))
def test_equals_on_a_noisy_machine_are_not(seed: int) -> None:
    samples = timed(1.0, noise=0.3, seed=seed)
    assert not samples.is_faster(1) and not samples.is_faster(0, reference=1)


def test_what_is_fast_in_its_first_rounds_only_is_not() -> None:
    assert timed(20.0, noise=0.01).is_faster(1)
    assert not timed(20.0, noise=0.01, late=40.0).is_faster(1)


def test_one_process_says_nothing() -> None:
    assert not timed(200.0, noise=0.01, processes=1).is_faster(1)
