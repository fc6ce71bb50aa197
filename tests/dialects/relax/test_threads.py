"""Kernels for many threads give each an equal share, and compute the same."""

from typing import Any

from passsearch.toolchain.host import FEW_THREADS


def test_tilings_that_know_of_many_threads_give_equal_shares(cases: Any) -> None:
    threads, chunks, *results = cases("thread_cases.py")
    assert chunks["few"] == FEW_THREADS
    assert chunks["counts"] == {
        "264 on 2": 44,
        "264 on 16": 44,
        "1048576 on 64": 64,
        "197 on 8": 197,
        "1009 on 16": 1009,
        "1214 on 16": 1214,
        "639 on 8": 639,
    }
    assert threads["threads"] == 16
    assert all(case["same"] for case in results)
    shared = [case for case in results if case["is_shared"]]
    assert max(case["imbalance"]["many"] for case in shared) <= 1.15
    # Some of these shares are unequal where the tilings do not know.
    assert max(case["imbalance"]["few"] for case in shared) > 1.25
