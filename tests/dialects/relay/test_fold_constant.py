"""Both evaluators of Relay's ``FoldConstant`` give the same IR."""

from typing import Any

import pytest


@pytest.mark.parametrize(("every", "graphs", "total"), [(12, 4, 39), pytest.param(1, 40, 186, marks=pytest.mark.slow)])
def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any, every: int, graphs: int, total: int) -> None:
    """All operators are tested. All their dtypes take a minute, because TVM compiles every constant call separately."""
    results = cases("fold_constant_cases.py", str(every), str(graphs))
    assert len(results) == total
    assert [case["case"] for case in results if not case["equal"]] == []
