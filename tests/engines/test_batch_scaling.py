"""The friction coefficient is the slope of time over batch size, both as logarithms."""

from collections.abc import Callable

import pytest

from passsearch.engines import friction_coefficient, friction_rows

SIZES = (1, 2, 4, 8)


def times(power: float, *factors: float) -> dict[int, list[float]]:
    return {size: [factor * size**power for factor in factors] for size in SIZES}


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.2])
def test_the_coefficient_is_the_power_of_the_batch_size(power: float) -> None:
    document = friction_coefficient(times(power, 0.01, 0.02, 0.03))
    assert document is not None
    assert document["value"] == pytest.approx(power)
    # A process that is slower at every batch size has no more friction.
    assert document["interval"] == pytest.approx([power, power])


def test_processes_that_disagree_widen_the_interval() -> None:
    document = friction_coefficient({1: [1.0, 1.0], 8: [8.0, 4.0]})
    assert document is not None
    assert document["by_process"] == pytest.approx([1.0, 2 / 3])
    assert document["interval"][0] < 2 / 3 < 1.0 < document["interval"][1]


def test_one_batch_size_has_no_friction() -> None:
    assert friction_coefficient({1: [1.0, 1.0]}) is None


@pytest.fixture
def rows() -> Callable[..., list[dict[str, object]]]:
    def make(**engines: float) -> list[dict[str, object]]:
        return [
            {"engine": name, "batch": size, "process_fastest_s": values}
            for name, power in engines.items()
            for size, values in times(power, 0.01, 0.02).items()
        ]

    return make


def test_an_engine_removes_a_share_of_the_baselines_friction(rows: Callable[..., list[dict[str, object]]]) -> None:
    documents = friction_rows(rows(base=1.0, half=0.5), engines=["base", "half"], baseline="base")
    assert documents["half"]["removed"]["value"] == pytest.approx(0.5)
    assert documents["base"]["removed"] is None


def test_an_engine_that_fails_at_one_batch_size_has_no_friction(rows: Callable[..., list[dict[str, object]]]) -> None:
    failed = [*rows(base=1.0), {"engine": "weak", "batch": 1, "failure": "no kernel"}]
    assert set(friction_rows(failed, engines=["base", "weak"], baseline="base")) == {"base"}
