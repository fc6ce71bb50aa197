"""Functions whose sizes are open get a schedule that computes the same at every size."""

from typing import Any

import pytest

WITHOUT_VECTORS = {"transpose", "product of odd columns"}
"""A function that reads and writes along different axes, and one with thirteen columns, more than a register holds."""


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_functions_of_open_sizes_are_scheduled_and_compute_the_same(cases: Any, every: int) -> None:
    results = cases("open_size_cases.py", str(every))
    assert len(results) == 28 // every
    for case in results:
        name = case["case"].partition(" on ")[0]
        assert case["scheduled"] and all(case["scheduled"]), case
        assert case["deviation"] < 2e-6 and case["threads"], case
        assert case["vectors"] == (name not in WITHOUT_VECTORS), case
        has_product = name.startswith(("product", "batched", "attention", "convolution"))
        assert case["tiles"] == (has_product and name not in WITHOUT_VECTORS), case
