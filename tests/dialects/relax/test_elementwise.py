"""Elementwise functions of several axes read whole vectors, without a division for the place of each."""

from typing import Any


def test_places_of_elementwise_functions_are_not_divided(cases: Any) -> None:
    results = cases("elementwise_cases.py")
    assert len(results) == 9
    for case in results:
        assert case["same"], case
        # Vectors of eight divide some axes of the last shape, and no vector divides its rows.
        assert case["divisions"] == 0 or case["case"] == "(23, 2, 16, 17)", case
