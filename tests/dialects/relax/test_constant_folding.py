"""Both evaluators of Relax's ``FoldConstant`` give the same IR."""

from typing import Any


def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any) -> None:
    results = cases("fold_constant_cases.py")
    assert len(results) > 100
    assert [case["case"] for case in results if not case["equal"] or case["left to tvm"]] == []
