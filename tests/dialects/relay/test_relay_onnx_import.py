"""The quicker import of ONNX makes the module that TVM's own inference and folding make."""

from pathlib import Path
from typing import Any

import onnx
import pytest

from passsearch.frontends.zoo import build


@pytest.mark.parametrize("network", ["resnet_tiny", pytest.param("gpt2_tiny", marks=pytest.mark.slow)])
def test_local_inference_makes_the_same_module(cases: Any, tmp_path: Path, network: str) -> None:
    file = tmp_path / f"{network}.onnx"
    onnx.save(build(network), file)
    assert cases("onnx_cases.py", str(file)) == [{"case": network, "equal": True}]
