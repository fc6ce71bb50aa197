"""``ScheduleCPU`` selects few numbers of long rows without sorting them."""

from typing import Any

SORTED = {"short rows", "many numbers", "first axis", "float64"}


def test_few_numbers_are_selected_without_a_sort(cases: Any) -> None:
    results = {case["case"]: case for case in cases("top_k_cases.py")}
    assert len(results) == 11
    assert {name for name, case in results.items() if not case["kernels"]} == SORTED
    assert {name: case["wrong"] for name, case in results.items() if case["wrong"]} == {}
