"""``ScheduleCPU`` computes places of extremes in vectors: the first of equal numbers, and NaN as TVM's loops do it."""

from typing import Any

BY_TVM = {"short rows", "few columns", "all axes", "no rows", "open rows"}
"""Places that TVM's own loops compute."""


def test_places_of_extremes_are_those_of_loops_without_a_schedule(cases: Any) -> None:
    results = cases("place_cases.py")
    assert len(results) == 24
    for case in results:
        assert case["wrong"] == [], case
        assert case["own"] == (case["case"].partition(" of ")[2] not in BY_TVM), case
