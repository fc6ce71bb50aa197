"""``ScheduleCPU`` adds up columns in vectors, with the sums of numpy bit by bit."""

from typing import Any

BY_TVM = {"last axis", "all axes", "few columns", "no numbers", "open size"}
"""Sums that TVM's own loops compute."""


def test_columns_are_added_up_in_vectors_and_in_order(cases: Any) -> None:
    results = cases("cumulative_sum_cases.py")
    assert len(results) == 18
    for case in results:
        is_own = case["case"] not in BY_TVM
        assert case["same"], case
        assert case["vectors"] == is_own, case
        assert case["kernels"] == (["cumsum"] if is_own else []), case
