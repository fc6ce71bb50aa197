"""The CPU schedule changes how fast functions are, and not what they compute."""

from typing import Any

PLAIN = {"sum of all"}
"""No axis that vectors fit in."""

AS_STORED = {"product of odd sizes"}
"""Weights with no axis to lay out anew."""


def test_scheduled_functions_compute_the_same(cases: Any) -> None:
    told = cases("schedule_cases.py")
    assert len(told) == 50
    for case in told:
        name = case["case"].partition(" on ")[0]
        weighed = name.startswith(("conv", "product")) and name not in AS_STORED
        assert case["scheduled"] and case["same"], case
        assert (case["vectors"], case["packed"]) == (name not in PLAIN, weighed), case
