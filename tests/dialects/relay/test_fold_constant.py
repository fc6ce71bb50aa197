"""Both evaluators of Relay's ``FoldConstant`` give the same IR."""

from typing import Any

import pytest


def test_numpy_folds_to_the_ir_tvm_folds_to(cases: Any) -> None:
    """On a fourth of all operators and dtypes, every operator on one at least: TVM compiles every constant call."""
    assert_equal(cases("fold_constant_cases.py", "4", "10"), at_least=40)


@pytest.mark.slow
def test_numpy_folds_every_operator_and_dtype_as_tvm_does(cases: Any) -> None:
    assert_equal(cases("fold_constant_cases.py", "1", "40"), at_least=150)


def assert_equal(told: list[dict[str, Any]], *, at_least: int) -> None:
    assert len(told) > at_least
    assert [case["case"] for case in told if not case["equal"]] == []
