"""The CPU schedule changes how fast functions are, and not what they compute."""

from typing import Any


def test_scheduled_functions_compute_the_same(cases: Any) -> None:
    told = cases("schedule_cases.py")
    assert len(told) == 42
    for case in told:
        assert case["scheduled"] and case["changed"], case
        assert case["same"], case
