"""Both evaluators of Relax's ``FoldConstant`` give the same IR."""

from typing import Any


def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any) -> None:
    told = cases("fold_constant_cases.py")
    assert len(told) > 90
    assert [case["case"] for case in told if not (case["equal"] and case["folded"])] == []
    ordinary = [case for case in told if not case["case"].endswith("odd")]
    assert [case["case"] for case in ordinary if not case["by numpy"]] == []
