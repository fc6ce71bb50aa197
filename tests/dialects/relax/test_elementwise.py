"""Elementwise functions of several axes read whole vectors, without a division for the place of each."""

from typing import Any


def test_places_of_elementwise_functions_are_not_divided(cases: Any) -> None:
    results = cases("elementwise_cases.py")
    assert len(results) == 7
    for case in results:
        assert case["same"] and case["divisions"] == 0, case
