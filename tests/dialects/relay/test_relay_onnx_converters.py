"""Operators that we convert compute what ONNX defines."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_sweep import write_cases


def test_converted_operators_compute_what_onnx_defines(cases: Any) -> None:
    results = cases("converter_cases.py")
    assert len(results) == 12
    assert [case["case"] for case in results if not case["same"]] == []


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_what_importers_had_computed_otherwise_is_right(cases: Any, every: int) -> None:
    results = cases("value_cases.py", str(every))
    assert len(results) == len(range(0, 43, every))
    assert [case for case in results if case["reason"]] == []


@pytest.mark.slow
def test_no_operator_computes_something_else_than_onnx_runtime(cases: Any, tmp_path: Path) -> None:
    write_cases(tmp_path)
    results = cases("sweep_cases.py", str(tmp_path))
    assert len(results) > 500
    assert [case for case in results if case["state"] == "wrong"] == []
    assert [case for case in results if case.get("plain") == "right"] == [], "refused, although TVM computes it right"
