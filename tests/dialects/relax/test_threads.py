"""Kernels for many threads give each an equal share, and compute the same."""

from typing import Any


def test_tilings_that_know_of_many_threads_give_equal_shares(cases: Any) -> None:
    threads, *results = cases("thread_cases.py")
    assert threads["threads"] == 16
    assert all(case["same"] for case in results)
    shared = [case for case in results if case["is_shared"]]
    assert max(case["imbalance"]["many"] for case in shared) <= 1.15
    # Some of these shares are unequal where the tilings do not know.
    assert max(case["imbalance"]["few"] for case in shared) > 1.25
