"""Transposed convolutions as convolutions of their phases."""

from typing import Any

import pytest


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_transposed_convolutions_keep_their_results_in_all_sizes(cases: Any, every: int) -> None:
    results = list(cases("subpixel_cases.py", str(every)))
    assert len(results) > 60 // every
    for case in results:
        assert case["same_shape"] and case["error"] < 1e-5, case
        assert case["changed"] == (case["kind"] == "rewritten"), case
