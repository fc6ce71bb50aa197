"""Recurrent layers compute what ONNX Runtime and PyTorch compute."""

from pathlib import Path
from typing import Any

import pytest
from recurrent_networks import write_layers

from passsearch.toolchain import Toolchain
from passsearch.toolchain.install import installed_frameworks


@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_layers_compute_what_onnx_runtime_computes(cases: Any, tmp_path: Path, every: int) -> None:
    write_layers(tmp_path, every)
    errors = {case["case"]: case["errors"] for case in cases("recurrent_cases.py", str(tmp_path))}
    assert len(errors) > 75 // every
    # Long sums are added in another order.
    limits = {name: 5e-5 if "shared by threads" in name else 5e-6 for name in errors}
    assert {name: each for name, each in errors.items() if not max(each) < limits[name]} == {}


def test_layers_compute_what_pytorch_computes(cases: Any, relax: Toolchain) -> None:
    if "torch" not in installed_frameworks(relax):
        pytest.skip("needs: passsearch toolchain install relax --with torch")
    results = {case["case"]: case for case in cases("torch_recurrent_cases.py")}
    assert len(results) == 29
    assert {name: each["error"] for name, each in results.items() if not each["error"] < 2e-6} == {}
    without = [name for name, each in results.items() if not each["loops"]]
    assert without == ["LSTM {'proj_size': 4} True", "LSTM {'proj_size': 4} False"]
