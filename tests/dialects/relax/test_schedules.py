"""The CPU schedule changes the speed of functions, and not their results."""

from typing import Any

import pytest

LEFT_TO_LLVM = {
    *("pool of stride and an odd width", "pool of steps, few images", "pool of steps along a line"),
    *("image of pairs", "image of threes", "padded image", "padded function", "pairs of a line"),
}
"""Functions with loops of which LLVM makes vectors."""

WITHOUT_VECTORS = {
    "x86-64-v3": {*LEFT_TO_LLVM, "padded transpose", "transposes along two axes", "scattered rows"},
    "x86-64": {
        *LEFT_TO_LLVM,
        *("padded pool of steps", "pool of steps along three axes", "padded image of short lines"),
        *("padded transpose", "transposes along two axes", "batched product", "argmax", "scattered rows"),
        *("product in float64", "product in int64", "channels first in float64"),
    },
}
"""Functions without an axis that vectors of four elements or more fit in, by processor."""

WHOLE_ON_AVX = {"product of vectors and a half", "conv of vectors and a half", "product of 43 vectors"}
"""Functions with tiles that overlap on processors with AVX, because their columns are no multiple of a good tile's."""

NOT_PACKED = {"product of odd sizes"}
"""Functions whose vectors are along an axis that no constant has."""

OVERLAPPING = {
    *("conv of a prime width", "conv of channels last, of a prime width"),
    *("product of odd sizes", "product of a prime number of rows", "batched product of prime sizes"),
    *("parts of odd sizes", "channels last, of prime sizes", "channels first, of prime sizes"),
    *("pool of an odd width", "pool by counts", "elementwise of odd sizes", "maxima of a prime number"),
    "sums of an odd number of columns",
    *("elementwise of sizes of six", "sum of a prime number", "sums of images of an odd width"),
}
"""Functions with sizes that no tile or vector divides; only their last tile or vector overlaps with another."""

MOST_LANES = {"x86-64-v3": 8, "x86-64": 4}
"""Elements of 32 bits in a vector register, by processor."""


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_scheduled_functions_compute_the_same(cases: Any, every: int) -> None:
    lanes, *results = cases("schedule_cases.py", str(every))
    # Half of a long register, before 9 to 15 of its elements.
    assert lanes == {"case": "lanes", "16": [16, 8, 8, 14, 8, 12], "8": [8, 8, 8, 7, 8, 6]}
    assert len(results) == 2 * sum(len(range(0, number, every)) for number in (90, 5))
    for case in results:
        name, _, processor = case["case"].removesuffix(", large tiles").partition(" on ")
        has_vectors = name not in WITHOUT_VECTORS[processor]
        is_packed = name.startswith(("conv", "product")) and has_vectors and name not in NOT_PACKED
        assert case["scheduled"] and case["same"], case
        assert (case["lanes"] > 1, case["packed"]) == (has_vectors, is_packed), case
        assert case["overlaps"] or name not in OVERLAPPING, case
        assert case["overlaps"] or name not in WHOLE_ON_AVX or processor != "x86-64-v3", case
        assert not (case["tests"] and name.startswith("joined")), case
        assert name != "scattered rows" or not case["starts_threads"], "each row is shorter than a start of threads"
        if name == "product" or name in WHOLE_ON_AVX:
            assert case["lanes"] == MOST_LANES[processor], case
