"""Kernels of rows: which are grouped, which are scheduled row by row, and that results stay the same."""

from typing import Any

import pytest

KERNELS = {
    "layer norm": (3, 1, 1),
    "layer norm of 768": (3, 1, 1),
    "layer norm of one row": (3, 1, 1),
    "layer norm of odd size": (3, 1, 1),
    "norm and product": (7, 3, 1),  # both norms are one function
    "written softmax": (4, 1, 1),
    "softmax": (1, 1, 1),
    "softmax of a prime length": (1, 1, 1),
    "softmax of a long prime length": (1, 1, 1),
    "softmax of a long odd length": (1, 1, 1),
    "logarithm of softmax": (1, 1, 1),
    "softmax of few long rows": (1, 1, 0),  # two rows would be work for two threads at most
    "layer norm of TVM": (1, 1, 0),  # one reduction has two results
    "mean read elsewhere": (6, 6, 1),
    "sum of rows": (1, 1, 0),
    "product": (1, 1, 0),
}
"""Kernels without and with ``FuseRows``, and functions that ``ScheduleRows`` schedules, by network."""


WIDENED = {
    *("softmax of a prime length", "softmax of a long prime length", "softmax of a long odd length"),
    "layer norm of odd size",
}
"""Networks whose reductions have a size that no vector divides."""


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_rows_are_one_kernel_and_computed_the_same(cases: Any, every: int) -> None:
    *results, bfloat16 = cases("row_cases.py", str(every))
    assert len(results) == 2 * len(range(0, len(KERNELS), every)) and bfloat16["same"]
    for case in results:
        name = case["case"].partition(" on ")[0]
        assert case["same"] and case["well_formed"], case
        assert (*case["kernels"], case["by_row"]) == KERNELS[name], case
        assert case["vectors"] == (case["by_row"] > 0), case
        # 200 rows share 64 allocations or a few more.
        assert name != "softmax of a long odd length" or 64 <= case["allocations"] < 100, case
        assert case["widened"] == (name in WIDENED), case
