"""Operators that we convert compute what ONNX defines."""

from typing import Any

import pytest


def test_converted_operators_compute_what_onnx_defines(cases: Any) -> None:
    results = cases("converter_cases.py")
    assert len(results) == 12
    assert [case["case"] for case in results if not case["same"]] == []


def test_what_importers_had_computed_otherwise_is_right(cases: Any) -> None:
    results = cases("value_cases.py")
    assert len(results) == 43
    assert [case for case in results if case["reason"]] == []


@pytest.mark.slow
def test_no_operator_computes_something_else_than_onnx_defines(cases: Any) -> None:
    results = cases("sweep_cases.py")
    assert len(results) > 500
    assert [case for case in results if case["state"] == "wrong"] == []
    assert [case for case in results if case.get("plain") == "right"] == [], "refused, although TVM computes it right"
