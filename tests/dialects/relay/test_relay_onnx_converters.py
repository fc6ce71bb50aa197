"""Operators that we convert compute what ONNX defines."""

from typing import Any


def test_converted_operators_compute_what_onnx_defines(cases: Any) -> None:
    results = cases("converter_cases.py")
    assert len(results) == 5
    assert [case["case"] for case in results if not case["same"]] == []
