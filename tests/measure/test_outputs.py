"""The gate: what counts as the same output."""

import math

import numpy as np
import pytest

from passsearch.dialects.contract import Array
from passsearch.measure.outputs import difference


def test_the_deviation_is_a_share_of_the_largest_value() -> None:
    expected = np.array([0.0, 10.0, -20.0], dtype="float32")
    assert difference(expected + np.float32(0.2), expected) == pytest.approx(0.01, rel=1e-4)
    assert difference(expected, expected) == 0.0


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (np.zeros(3, "float32"), np.zeros(4, "float32")),
        (np.zeros(3, "float16"), np.zeros(3, "float32")),
        (np.array([1, 2, 4]), np.array([1, 2, 3])),
        (np.array([True, False]), np.array([True, True])),
        (np.array([np.nan, 1.0]), np.array([1.0, 1.0])),
        (np.array([1.0, 1.0]), np.array([np.inf, 1.0])),
        (np.array([-np.inf, 1.0]), np.array([np.inf, 1.0])),
    ],
    ids=["shape", "dtype", "integers", "booleans", "new nan", "lost infinity", "other sign"],
)
def test_what_may_not_differ_at_all(actual: Array, expected: Array) -> None:
    assert math.isinf(difference(actual, expected))


def test_values_that_are_not_finite_in_both_agree() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 2.0])
    assert difference(values, values.copy()) == 0.0
    assert difference(np.full(2, np.nan), np.full(2, np.nan)) == 0.0
