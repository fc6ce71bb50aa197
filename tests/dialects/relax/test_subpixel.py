"""Transposed convolutions as convolutions of their phases."""

from typing import Any


def test_transposed_convolutions_keep_their_results_in_all_sizes(cases: Any) -> None:
    results = list(cases("subpixel_cases.py"))
    assert len(results) > 60
    for case in results:
        assert case["same_shape"] and case["error"] < 1e-5, case
        assert case["changed"] == (case["kind"] == "rewritten"), case
