"""``ScheduleCPU`` computes places of extremes in vectors: the first of equal numbers, and NaN as TVM's loops do it."""

from typing import Any

import pytest

BY_TVM = {"short rows", "few columns", "all axes", "no rows", "open rows"}
"""Places that TVM's own loops compute."""


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_places_of_extremes_are_those_of_loops_without_a_schedule(cases: Any, every: int) -> None:
    results = cases("place_cases.py", str(every))
    assert len(results) == 24 // every
    for case in results:
        assert case["wrong"] == [], case
        assert case["own"] == (case["case"].partition(" of ")[2] not in BY_TVM), case
