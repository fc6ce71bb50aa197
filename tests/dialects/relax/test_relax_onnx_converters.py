"""Operators that we convert compute what ONNX's reference implementation computes."""

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from onnx_sweep import write_cases


def test_converted_operators_compute_what_onnx_defines(cases: Any) -> None:
    results = cases("converter_cases.py")
    networks = [case for case in results if "same" in case]
    assert len(networks) == 20
    assert [case["case"] for case in networks if not case["same"]] == []
    refusals = {case["case"]: case["refusal"] for case in results if "refusal" in case}
    operators = {"border": "GridSample", "antialias": "Resize", "axes": "Resize"}
    operators["keep_aspect_ratio_policy"] = "Resize"
    assert refusals.keys() == operators.keys()
    for word, operator in operators.items():
        assert f"Operator {operator}" in refusals[word] and word in refusals[word]


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_values_are_those_that_onnx_defines(cases: Any, every: int) -> None:
    reasons = {case["case"]: case["reason"] for case in cases("value_cases.py", str(every))}
    assert len(reasons) > 50 // every
    refused = {name: reason for name, reason in reasons.items() if "refuses it: Operator" in reason}
    words = {"indices of maxima 0": "output `i`", "indices of maxima 1": "storage_order"}
    words["sizes of another sum"] = "Operator SplitToSequence"
    assert refused.keys() == words.keys() & reasons.keys()
    assert [name for name, reason in refused.items() if words[name] not in reason] == []
    assert {name: reason for name, reason in reasons.items() if reason and name not in refused} == {}


@pytest.mark.slow
def test_no_operator_computes_something_else_than_onnx_runtime(cases: Any, tmp_path: Path) -> None:
    write_cases(tmp_path)
    results = cases("sweep_cases.py", str(tmp_path))
    assert len(results) > 500
    assert [case for case in results if case["state"] == "wrong"] == []
    assert [case for case in results if case.get("plain") == "right"] == [], "refused, although TVM computes it right"
