"""Recurrent layers compute what ONNX Runtime computes."""

from pathlib import Path
from typing import Any

from recurrent_networks import write_layers


def test_layers_compute_what_onnx_runtime_computes(cases: Any, tmp_path: Path) -> None:
    write_layers(tmp_path)
    errors = {case["case"]: case["errors"] for case in cases("recurrent_cases.py", str(tmp_path))}
    assert len(errors) > 75
    assert {name: each for name, each in errors.items() if not max(each) < 5e-6} == {}
