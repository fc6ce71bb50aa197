"""Comparison of outputs beyond the largest deviation: means, slices, and values that are not finite."""

import numpy as np
import pytest

from passsearch.core import CheckInputs, TensorType
from passsearch.dialects.comparison import (
    Special,
    common_factor,
    compare_special,
    mean_deviation,
    scaled_deviation,
    slice_axes,
    slice_deviation,
)
from passsearch.dialects.reference import changes_of_slices, make_reference, neighbouring_inputs

RNG = np.random.default_rng(0)


def test_a_factor_is_seen_under_the_noise_of_rounding() -> None:
    expected = RNG.standard_normal((16, 64)).astype("float32")
    noise = (0.05 * RNG.standard_normal(expected.shape)).astype("float32")
    assert common_factor(expected * np.float32(1.05) + noise, expected) == pytest.approx(0.05, abs=0.01)
    assert common_factor(expected + noise, expected) < 0.01
    assert mean_deviation(expected * np.float32(1.05), expected) == pytest.approx(0.05, rel=1e-4)
    assert common_factor(expected[0, :4] * 2, expected[0, :4]) == 0.0, "a few values have no common factor"


def _detector() -> np.ndarray:
    """Return outputs of a detector: boxes of up to 640 pixels, and scores below 0.01."""
    outputs = RNG.uniform(0, 640, (1, 84, 256))
    outputs[:, 4:] = RNG.uniform(0, 0.01, (1, 80, 256))
    return outputs.astype("float32")


def test_a_lost_slice_is_found_beside_larger_ones() -> None:
    expected = _detector()
    lost = expected.copy()
    lost[:, 4:] = 0
    none = {1: np.zeros(84), 2: np.zeros(256)}
    for changes in (none, None):
        share, where = slice_deviation(lost, expected, changes)
        assert share == pytest.approx(1.0) and where == "slice 4 of axis 1"


def test_what_rounding_explains_is_no_error_of_a_slice() -> None:
    expected = _detector()
    rounded = (expected * (1 + 1e-6 * RNG.standard_normal(expected.shape))).astype("float32")
    change = {1: np.abs(rounded - expected).max(axis=(0, 2)), 2: np.abs(rounded - expected).max(axis=(0, 1))}
    assert slice_deviation(rounded, expected, change)[0] < 1e-3
    # A slice that only cancels to zero moves by as much as the reference does.
    expected[:, 7], other = 0.0, expected.copy()
    other[:, 7] = 1e-3
    assert slice_deviation(other, expected, {1: np.full(84, 1e-3)})[0] < 1e-3
    assert slice_deviation(other, expected, {1: np.zeros(84)})[0] > 1.0


def test_scores_beside_boxes_are_judged_by_their_own_scale() -> None:
    expected = _detector()
    change = {axis: 1e-7 * np.abs(expected).max(axis=others) for axis, others in ((1, (0, 2)), (2, (0, 1)))}
    wrong = expected.copy()
    wrong[:, 9] *= 1.07
    share, where = scaled_deviation(wrong, expected, change)
    assert share == pytest.approx(0.07, rel=0.01) and where == "slice 9 of axis 1"
    assert scaled_deviation(expected, expected, change)[0] == 0.0
    # Boxes alone have one scale, which the deviation of the whole output judges.
    assert scaled_deviation(wrong[:, :4] * np.float32(1.1), expected[:, :4], change) == (0.0, "")
    assert scaled_deviation(wrong, expected, None) == (0.0, ""), "nothing is known of rounding"


def test_a_hidden_state_with_few_large_channels_may_deviate_where_rounding_moves_it() -> None:
    expected = RNG.standard_normal((1, 64, 256)).astype("float32")
    expected[..., :3] *= 1000
    # Sums with the large channels in them: what rounding changes is a share of these, in all channels.
    change = {1: np.full(64, 2e-4), 2: np.full(256, 2e-4)}
    narrow = expected + (3.0 * RNG.uniform(-1, 1, expected.shape)).astype("float32")
    share, _ = scaled_deviation(narrow, expected, change)
    assert share < 1e-2, "as the whole output, which deviates by 1e-3 of its largest value"
    # The same deviation where the small channels do not depend on the large ones.
    independent = {1: np.full(64, 2e-4), 2: np.where(np.arange(256) < 3, 2e-4, 1e-7)}
    assert scaled_deviation(narrow, expected, independent)[0] > 0.5


def test_slices_of_a_few_values_and_of_integers_are_not_judged() -> None:
    assert slice_axes(np.zeros((1, 1000), "float32")) == []
    assert slice_axes(np.zeros((1, 84, 256), "int32")) == []
    assert slice_axes(np.zeros((2, 4, 10000), "float32")) == [0, 1]


@pytest.mark.parametrize(
    ("actual", "found"),
    [
        ([np.nan, 1.0, np.inf, 2.0], Special(0, 0, 0.0)),
        ([0.0, 1.0, np.inf, 2.0], Special(1, 0, 0.0)),
        ([np.nan, 1.0, 3.4e38, 2.0], Special(1, 0, 0.0)),
        ([np.nan, 1.0, -np.inf, 2.0], Special(1, 1, 0.0)),
        ([np.nan, np.nan, np.inf, 2.0], Special(0, 1, 0.0)),
        ([np.nan, 1.0, np.nan, 2.0], Special(0, 1, 0.0)),
        ([1.0, np.nan, np.inf, 2.0], Special(0, 1, 0.0)),
        ([np.nan, 1.0, np.inf, 2.2], Special(0, 0, 0.1)),
    ],
    ids=["equal", "no nan", "no infinity", "other sign", "one more", "infinity to nan", "moved", "values"],
)
def test_values_that_are_not_finite_are_counted(actual: list[float], found: Special) -> None:
    outcome = compare_special(np.array(actual), np.array([np.nan, 1.0, np.inf, 2.0]))
    assert (outcome.lost, outcome.spread) == (found.lost, found.spread)
    assert outcome.deviation == pytest.approx(found.deviation)


def test_integers_of_inputs_that_are_not_numbers_are_not_compared() -> None:
    assert compare_special(np.array([0, 1]), np.array([1, 0])) == Special(0, 0, 0.0)


def test_neighbours_of_special_values_are_these_values() -> None:
    array = np.array([0.0, np.nan, np.inf, -np.inf, np.finfo("float32").max, 1.0], "float32")
    moved = neighbouring_inputs({"x": array}, seed=0)["x"]
    assert np.array_equal(moved[:4], array[:4], equal_nan=True) and np.isfinite(moved[4]) and moved[5] != array[5]


def test_a_reference_has_the_change_of_each_slice(tmp_path) -> None:
    inputs = CheckInputs({"x": TensorType((4, 32), "float32")})

    def run(arrays):
        return [arrays["x"] * np.array([[1e3], [1.0], [1.0], [0.0]], "float32")]

    made = make_reference(run, inputs, cases=(1, "large", "huge", "nan"))
    made.save(tmp_path / "reference.npz")
    with np.load(tmp_path / "reference.npz") as file:
        changes = changes_of_slices(file, 0)
        assert changes is not None and changes[0][0] > 100 * changes[0][1] > 0 and changes[0][3] == 0.0
        assert float(file["change_large"]) < 1e-6 and "nan_0" in file and "huge_0" in file


def test_huge_inputs_without_a_change_are_left_out() -> None:
    inputs = CheckInputs({"x": TensorType((4, 32), "float32")})
    made = make_reference(lambda arrays: [arrays["x"]], inputs, cases=(1, "huge"), total_s=0.0)
    assert set(made.outputs) == {"1_0"}
    without_time = make_reference(lambda arrays: [arrays["x"]], inputs, cases=(1,), total_s=0.0)
    assert changes_of_slices({**without_time.outputs, **without_time.changes}, 0) is None
