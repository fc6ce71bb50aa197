"""A budget is a share of the largest output, or of rows by their classes; what is neither is refused in a line."""

import pytest

from passsearch.core import ACCURACY, SHARE, TOP1, ErrorBudget, read_budget
from passsearch.errors import UserError


@pytest.mark.parametrize(
    ("value", "budget"),
    [
        (0.01, ErrorBudget(0.01, SHARE, 0.01)),
        ("1e-3", ErrorBudget(1e-3, SHARE, 1e-3)),
        (1, ErrorBudget(1, SHARE, 1)),
        ("top1:0.02", ErrorBudget(0.02, TOP1, 1.0)),
        ("top1:0", ErrorBudget(0, TOP1, 1.0)),
        (" accuracy : 0.005", ErrorBudget(0.005, ACCURACY, 1.0)),
    ],
)
def test_a_budget_has_a_unit_and_prints_as_it_is_read(value: object, budget: ErrorBudget) -> None:
    assert read_budget(value) == budget and read_budget(budget.text) == budget


@pytest.mark.parametrize(
    "value",
    [
        *("much", "", "-1", -0.1, 0, 2.0, "1e-9", "nan", float("nan"), float("inf"), True, "top1", "top1:", "top1:2"),
        *("top1:-0.1", "accuracy:x", "top5:0.1", ":0.1", [0.1], {}),
    ],
)
def test_what_is_no_budget_is_refused_in_a_line(value: object) -> None:
    with pytest.raises(UserError, match=r"`budget` is a number from 1e-06 to 1 .* or top1:N .*; got ") as caught:
        read_budget(value)
    assert "\n" not in str(caught.value) and str(caught.value).endswith("For example: budget=0.01")
