"""``ScheduleCPU`` adds up columns in vectors, with the sums of numpy bit by bit."""

from typing import Any

NOTHING = {"no numbers", "no numbers of a wider result", "no images"}
"""Sums of nothing, for which TVM's loops write outside of the result."""

BY_TVM = {"last axis", "all axes", "few columns", "open size", *NOTHING}
"""Sums that TVM's own loops compute."""


def test_columns_are_added_up_in_vectors_and_in_order(cases: Any) -> None:
    results = cases("cumulative_sum_cases.py")
    assert len(results) == 20
    for case in results:
        is_own = case["case"] not in BY_TVM
        assert case["same"], case
        assert case["vectors"] == is_own, case
        assert case["kernels"] == (["cumsum"] if is_own or case["case"] in NOTHING else []), case
