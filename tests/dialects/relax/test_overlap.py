"""Tiles that overlap compute the same, whatever reads the sums, and reductions take no element twice."""

from typing import Any


def test_functions_of_any_form_compute_the_same(cases: Any) -> None:
    results = cases("overlap_cases.py")
    assert len(results) == 18
    assert not [case for case in results if not case["scheduled"] or not case["same"]]
