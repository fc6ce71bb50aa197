"""What counts as another output of a kernel."""

import numpy as np
import pytest

from passsearch.dialects.foreign_kernel import KernelParameter
from passsearch.worker.referee_inputs import NASTY, OWN, SEEDS, make_inputs
from passsearch.worker.referee_values import difference

RNG = np.random.default_rng(0)
WIDE = RNG.standard_normal((8, 32))
PRESENT = WIDE.astype("float32")


def changed(place: tuple[int, int], value: float) -> np.ndarray:
    array = PRESENT.copy()
    array[place] = value
    return array


def test_another_rounding_is_no_difference() -> None:
    rounded = np.nextafter(PRESENT, np.float32(9))
    assert difference(rounded, PRESENT, WIDE) == difference(rounded, PRESENT, None) == ""


@pytest.mark.parametrize(
    ("got", "words"),
    [
        (PRESENT.astype("float16").astype("float32"), "deviates by"),
        (changed((7, 31), float(PRESENT[7, 31]) + 1e-3), "an output deviates"),
        (changed((2, 2), np.nan), "NaN is in other places (1 of 256 values)"),
        (changed((2, 2), np.inf), "infinity is in other places"),
    ],
)
def test_a_difference_is_named(got: np.ndarray, words: str) -> None:
    assert words in difference(got, PRESENT, WIDE)
    assert difference(got, PRESENT, None)


def test_a_small_row_counts_as_much_as_a_large_one() -> None:
    wide = WIDE * 1e-6
    wide[0] *= 1e6
    present = wide.astype("float32")
    wrong = present.copy()
    wrong[5, 0] += 1e-8
    assert np.abs(wrong - present).max() < 1e-7 * np.abs(present).max()
    assert "a row deviates" in difference(wrong, present, wide)


def test_the_sign_of_zero_counts_where_the_present_kernel_has_a_zero() -> None:
    zero = np.zeros((2, 2), "float32")
    assert "the sign of zero differs (4 of 4 values)" in difference(-zero, zero, zero.astype("float64"))


def test_overflow_by_the_order_of_sums_is_not_judged() -> None:
    wide = np.full((1, 2), 1e39)
    present, got = np.array([[np.inf, np.inf]], "float32"), np.array([[np.nan, np.inf]], "float32")
    assert difference(got, present, wide) == ""
    assert "NaN" in difference(got, present, np.full((1, 2), np.inf))


def test_integers_must_be_equal() -> None:
    present = np.arange(6, dtype="int32")
    assert difference(present.copy(), present, None) == ""
    assert difference(present + 1, present, None) == "6 of 6 values differ"


def test_indices_stay_valid_and_weights_are_the_networks_own_in_one_case() -> None:
    parameters = {
        0: KernelParameter("x", "float32", (4, 3), False),
        1: KernelParameter("table", "int64", (3,), False),
        2: KernelParameter("chosen", "int32", (5,), False),
    }
    constants = {0: np.full((4, 3), 7, "float32"), 1: np.array([9, 8, 7])}
    own, other = (make_inputs(parameters, constants, case) for case in (OWN, SEEDS[1]))
    assert (own[0] == 7).all() and not (other[0] == 7).any()
    assert all((made[1] == [9, 8, 7]).all() and set(made[2]) <= {0, 1} for made in (own, other))
    number = {0: KernelParameter("x", "int32", (64,), False, may_be_index=False)}
    ranges = [np.ptp(make_inputs(number, {0: np.zeros(64)}, case)[0].astype(float)) for case in (OWN, *SEEDS)]
    assert ranges[0] == 0 and max(ranges) > 2**30 and 8 < min(ranges[1:]) < 16
    for case in NASTY:
        made = make_inputs(parameters, {}, case)
        assert {place: (array.shape, str(array.dtype)) for place, array in made.items()} == {
            place: (each.shape, each.dtype) for place, each in parameters.items()
        }
