"""Both evaluators of Relax's ``FoldConstant`` give the same IR."""

from typing import Any

import pytest


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any, every: int) -> None:
    results = cases("fold_constant_cases.py", str(every))
    assert len(results) > 100 // every
    assert [case["case"] for case in results if not case["equal"] or case["left to tvm"]] == []
