"""Compares outputs with the reference's: largest and mean deviation, each slice by its own scale, what is not finite.

numpy only, so that any process can use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from passsearch.core import CHANGE_MARGIN
from passsearch.dialects.contract import Array

TINY = 1e-30
"""Smallest scale of a relative deviation; keeps outputs that are all zero from a division by zero."""

LEAST_SLICE = 8
"""Fewest values of a slice that is judged by its own scale: fewer may all be small by chance."""

MOST_SLICES = 4096
"""Most slices along one axis; longer axes are positions in space or time, which have one scale."""

SLICE_FLOOR = 8.0
"""Machine epsilons of the largest output below which a slice's deviation says nothing."""

SEVERAL_SCALES = 100.0
"""Quotient of the magnitudes of two slices from which on an output has several scales: a detector's boxes in pixels
stand beside scores up to 1."""

MOST_TIES = 1e-4
"""Largest share of an output of integers that may differ: rounding decides between scores that are nearly equal."""

STEPPED = ("int8", "uint8")
"""Integers that stand for rounded floats where a network quantises: rounding moves them by a step."""

HALF_RANGE = 128.0
"""Number of steps in half the range of such an integer."""

LEAST_SCALE = 1 / 64
"""Share of an output's largest magnitude on usual inputs that its scale has at least on edge inputs."""

ZEROS = "zeros"
"""Edge inputs on which that share is 1: an output may be the difference of equal numbers there, of which rounding
leaves something."""

LEAST_VALUES = 32
"""Fewest values whose common factor is estimated."""


def relative_deviation(actual: Array, expected: Array, *, least_scale: float = 0.0) -> float:
    """Return the largest deviation, divided by the largest expected magnitude or by ``least_scale``.

    The result is infinite if the shapes or types differ, if a value is finite in one array only, or if more than
    ``MOST_TIES`` of integers or booleans are not equal. Integers of 8 bits deviate by a share of ``HALF_RANGE``.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not np.issubdtype(expected.dtype, np.floating):
        if _are_ties(actual, expected):
            return 0.0
        return _step_deviation(actual, expected) if expected.dtype.name in STEPPED else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(expected[finite]).max()), least_scale, TINY)
    # In float64, so that the difference of two float16 values does not overflow.
    return float(np.abs(actual[finite].astype("float64") - expected[finite]).max()) / scale


def _are_ties(actual: Array, expected: Array) -> bool:
    """Return whether so few integers or booleans differ that rounding explains it."""
    return bool(np.count_nonzero(actual != expected) <= MOST_TIES * expected.size)


def _step_deviation(actual: Array, expected: Array) -> float:
    """Return the largest difference of integers of 8 bits as a share of half their type's range.

    Not of the largest magnitude: where the zero point is 128, that says nothing about the floats.
    """
    return float(np.abs(actual.astype("float64") - expected.astype("float64")).max()) / HALF_RANGE


def least_scale(expected: Mapping[str, Array], index: int, *, case: str) -> float:
    """Return the least scale of one output's deviations on edge inputs, from the reference's outputs on usual inputs.

    Args:
        expected: Outputs on usual inputs by case and index, ``<case>_<index>``.
        index: Number of the output.
        case: Name of the edge inputs.
    """
    share = 1.0 if case == ZEROS else LEAST_SCALE
    arrays = [array for key, array in expected.items() if key.rpartition("_")[2] == str(index)]
    finite = [array[np.isfinite(array)] for array in arrays if array.dtype.kind == "f"]
    return share * max((float(np.abs(values).max(initial=0.0)) for values in finite), default=0.0)


def largest_deviation(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest deviation of any output; see ``relative_deviation``."""
    return max((relative_deviation(*pair) for pair in zip(actual, expected, strict=True)), default=0.0)


@dataclass(frozen=True)
class Special:
    """Comparison of one output on inputs that are not finite, or so large that results overflow.

    Attributes:
        lost: Number of values that are NaN or infinite in the reference, and are no longer.
        spread: Number of values that are finite, or infinite, in the reference, and are NaN or infinite here.
        deviation: Largest deviation of finite values; 0 where others differ, because then these may stand elsewhere.
    """

    lost: int
    spread: int
    deviation: float


def compare_special(actual: Array, expected: Array) -> Special:
    """Compare one output of equal shape and type; integers are not compared, NaN has none."""
    if expected.dtype.kind != "f":
        return Special(0, 0, 0.0)
    was_nan, is_nan, was_inf, is_inf = np.isnan(expected), np.isnan(actual), np.isinf(expected), np.isinf(actual)
    # Counted and not by place: what a sort or a selection moves is not lost.
    nan = np.count_nonzero(was_nan & ~is_nan) - np.count_nonzero(is_nan & ~was_nan)
    same_inf = was_inf & is_inf & (actual == expected)
    infinite = np.count_nonzero(was_inf & ~is_nan & ~same_inf) - np.count_nonzero(is_inf & ~was_inf)
    lost = max(nan, 0) + max(infinite, 0)
    moved = np.count_nonzero((is_nan & ~was_nan) | (is_inf & ~same_inf & ~was_nan))
    finite = np.isfinite(expected)
    if lost or moved or not finite.any():
        return Special(int(lost), int(moved), 0.0)
    scale = max(float(np.abs(expected[finite]).max()), TINY)
    return Special(0, 0, float(np.abs(actual[finite].astype("float64") - expected[finite]).max()) / scale)


def mean_deviation(actual: Array, expected: Array) -> float:
    """Return the mean deviation, divided by the mean magnitude, of the values that are finite in both arrays."""
    pair = _finite_pair(actual, expected)
    return 0.0 if pair is None else float(np.abs(pair[0] - pair[1]).mean()) / max(float(np.abs(pair[1]).mean()), TINY)


def common_factor(actual: Array, expected: Array) -> float:
    """Return by which share all values are too large or too small together, as least squares estimate it."""
    pair = _finite_pair(actual, expected)
    if pair is None or pair[0].size < LEAST_VALUES:
        return 0.0
    square = float((pair[1] ** 2).sum())
    return 0.0 if square < TINY else abs(float((pair[0] * pair[1]).sum()) / square - 1.0)


def _finite_pair(actual: Array, expected: Array) -> tuple[Array, Array] | None:
    if actual.shape != expected.shape or actual.dtype != expected.dtype or not expected.size:
        return None
    if expected.dtype.name in STEPPED and not _are_ties(actual, expected):
        # Their zero point is not known; the mean of the values is near it.
        middle = float(expected.mean(dtype="float64"))
        return actual.astype("float64") - middle, expected.astype("float64") - middle
    if expected.dtype.kind != "f":
        return None
    both = np.isfinite(actual) & np.isfinite(expected)
    return (actual[both].astype("float64"), expected[both].astype("float64")) if both.any() else None


def slice_axes(output: Array) -> list[int]:
    """Return the axes along which an output has slices that are judged by their own scale."""
    if output.dtype.kind != "f":
        return []
    return [
        axis for axis, size in enumerate(output.shape) if 1 < size <= MOST_SLICES and output.size // size >= LEAST_SLICE
    ]


def slice_magnitudes(values: Array, axis: int) -> Array:
    """Return the largest finite magnitude in every slice along an axis, 0 where a slice has none."""
    others = tuple(place for place in range(values.ndim) if place != axis)
    magnitudes: Array = np.where(np.isfinite(values), np.abs(values.astype("float64")), 0.0).max(axis=others)
    return magnitudes


def slice_deviation(actual: Array, expected: Array, changes: Mapping[int, Array] | None) -> tuple[float, str]:
    """Return the largest deviation of a slice, divided by the slice's largest magnitude, and the slice in words.

    A slice counts only if rounding does not explain its deviation.

    Args:
        actual: The output.
        expected: The reference's output.
        changes: By axis, the largest change of every slice of the reference when its inputs move by one rounding;
            ``None`` if it is unknown.
    """
    worst, where = 0.0, ""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return worst, where
    for axis in slice_axes(expected):
        scales = slice_magnitudes(expected, axis)
        with np.errstate(invalid="ignore"):  # of infinities; they are compared elsewhere
            found = slice_magnitudes(actual.astype("float64") - expected.astype("float64"), axis)
        floor = SLICE_FLOOR * float(np.finfo(expected.dtype).eps) * float(scales.max(initial=0.0))
        change = np.zeros_like(scales) if changes is None else CHANGE_MARGIN * changes.get(axis, np.zeros_like(scales))
        # Where the change is unknown, rounding may explain much: only a slice that is lost counts, and none of zeros.
        counts = (found > floor + change) if changes is not None else (found > scales / 2) & (scales > floor)
        shares = np.where(counts, found / np.maximum(scales, TINY), 0.0)
        place = int(shares.argmax())
        if shares[place] > worst:
            worst, where = float(shares[place]), f"slice {place} of axis {axis}"
    return min(worst, 1 / TINY), where


def scaled_deviation(actual: Array, expected: Array, changes: Mapping[int, Array] | None) -> tuple[float, str]:
    """Return the largest deviation of a slice of an output with several scales, by the slice's own, and it in words.

    Rounding in a sum with large terms moves small results by a share of the large ones, as in a hidden state with few
    large channels. It shows in the reference too: where the inputs move by one rounding, such a slice changes by a
    larger share of its scale than the whole output does of its own. That quotient is how much more it may deviate.

    Args:
        actual: The output.
        expected: The reference's output.
        changes: See ``slice_deviation``; without them nothing is known of a slice.

    Returns:
        0 for an output with one scale.
    """
    worst, where = 0.0, ""
    if changes is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
        return worst, where
    for axis in slice_axes(expected):
        change, scales = changes.get(axis), slice_magnitudes(expected, axis)
        largest, floor = float(scales.max(initial=0.0)), SLICE_FLOOR * float(np.finfo(expected.dtype).eps)
        used = scales > floor * largest
        # The first axis has samples and not quantities.
        if axis == 0 or change is None or not used.any() or largest <= SEVERAL_SCALES * scales[used].min():
            continue
        with np.errstate(invalid="ignore"):
            found = slice_magnitudes(actual.astype("float64") - expected.astype("float64"), axis)
        moved = change / np.maximum(scales, TINY)
        sensitivity = np.maximum(moved / max(float(change.max()) / max(largest, TINY), TINY), 1.0)
        counts = used & (found > floor * largest + CHANGE_MARGIN * change)
        shares = np.where(counts, found / np.maximum(scales * sensitivity, TINY), 0.0)
        place = int(shares.argmax())
        if shares[place] > worst:
            worst, where = float(shares[place]), f"slice {place} of axis {axis}"
    return min(worst, 1 / TINY), where
