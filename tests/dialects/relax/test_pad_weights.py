"""Padding of weights whose columns do not divide into vectors, where a size is open."""

from typing import Any


def test_products_keep_their_results_and_are_padded_only_where_vectors_need_it(cases: Any) -> None:
    results = {case["case"]: case for case in cases("pad_cases.py")}
    padded = {"product", "batch", "weights for each batch", "in float64", "convolution", "convolution of channels last"}
    assert {name for name, case in results.items() if case["changed"]} == padded
    assert {name for name, case in results.items() if not case["vectors"]} == {"one dimension", "few columns"}
    assert all(case["error"] < 1e-5 and case["same_shape"] for case in results.values())
