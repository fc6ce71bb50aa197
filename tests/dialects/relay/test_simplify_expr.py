"""``SimplifyExpr`` that looks first gives the IR it gives without."""

from typing import Any


def test_looking_first_changes_no_result(cases: Any) -> None:
    told = cases("simplify_expr_cases.py")
    assert [case["case"] for case in told if not case["equal"]] == []
    assert sum(case["changed"] for case in told) > 100
    assert sum(not case["run"] for case in told) > 100
