"""The whole search on a simulated machine with disturbances: it claims no false gain and finds the real ones."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def wins(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    from simulate_search import search_once

    return lambda gain, searches, noise=0.003, objective="throughput": sum(
        search_once(seed, gain=gain, noise=noise, objective=objective) for seed in range(searches)
    )


def test_equal_candidates_do_not_win(wins: Callable[..., int]) -> None:
    assert wins(0.0, 40) == 0
    assert wins(0.0, 20, 0.012) == 0


def test_real_gains_are_found(wins: Callable[..., int]) -> None:
    assert wins(0.03, 30) >= 24
    assert wins(0.10, 30) >= 29


def test_a_search_for_compile_time_claims_what_compiles_faster_only(wins: Callable[..., int]) -> None:
    assert wins(0.0, 30, 0.03, "compile_time") == 0
    assert wins(0.5, 20, 0.03, "compile_time") >= 19


@pytest.mark.slow
@pytest.mark.parametrize(("gain", "least", "most"), [(0.0, 0, 5), (0.03, 430, 500), (0.10, 495, 500)])
def test_five_hundred_searches(wins: Callable[..., int], gain: float, least: int, most: int) -> None:
    assert least <= wins(gain, 500, 0.006) <= most
