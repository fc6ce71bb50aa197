"""Both evaluators of Relay's ``FoldConstant`` give the same IR."""

from typing import Any

import pytest


@pytest.mark.parametrize(
    ("every", "graphs", "cases_in_all"), [(4, 10, 61), pytest.param(1, 40, 186, marks=pytest.mark.slow)]
)
def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any, every: int, graphs: int, cases_in_all: int) -> None:
    """On all operators; all their dtypes take a minute, as TVM compiles every constant call by itself."""
    told = cases("fold_constant_cases.py", str(every), str(graphs))
    assert len(told) == cases_in_all
    assert [case["case"] for case in told if not case["equal"]] == []
