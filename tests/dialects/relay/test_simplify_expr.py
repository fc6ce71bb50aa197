"""``SimplifyExpr`` makes the same IR with and without ``look_first``."""

from typing import Any

import pytest


@pytest.mark.parametrize(("trees", "least"), [(50, 10), pytest.param(400, 100, marks=pytest.mark.slow)])
def test_looking_first_changes_no_result(cases: Any, trees: int, least: int) -> None:
    results = cases("simplify_expr_cases.py", str(trees))
    assert [case["case"] for case in results if not case["equal"]] == []
    assert sum(case["changed"] for case in results) > least
    assert sum(not case["run"] for case in results) > least
