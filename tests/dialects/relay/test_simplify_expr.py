"""``SimplifyExpr`` makes the same IR with and without ``look_first``."""

from typing import Any


def test_looking_first_changes_no_result(cases: Any) -> None:
    results = cases("simplify_expr_cases.py")
    assert [case["case"] for case in results if not case["equal"]] == []
    assert sum(case["changed"] for case in results) > 100
    assert sum(not case["run"] for case in results) > 100
