"""Operators that we convert compute what ONNX's reference implementation computes."""

from typing import Any

import pytest


def test_converted_operators_compute_what_onnx_defines(cases: Any) -> None:
    *networks, clipped = cases("converter_cases.py")
    assert len(networks) == 8
    assert [case["case"] for case in networks if not case["same"]] == []
    assert "Operator LSTM" in clipped["refusal"] and "clip" in clipped["refusal"]


@pytest.mark.slow
def test_no_operator_computes_something_else_than_onnx_defines(cases: Any) -> None:
    results = cases("sweep_cases.py")
    assert len(results) > 500
    assert [case for case in results if case["state"] == "wrong"] == []
    assert [case for case in results if case.get("plain") == "right"] == [], "refused, although TVM computes it right"
