"""The quicker import of ONNX makes the module that TVM's own inference and folding make."""

from pathlib import Path
from typing import Any

import onnx

from passsearch.frontends.zoo import build

NETWORKS = ("gpt2_tiny", "resnet_tiny")


def test_local_inference_makes_the_same_module(cases: Any, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}.onnx" for name in NETWORKS]
    for file in files:
        onnx.save(build(file.stem), file)
    results = cases("onnx_cases.py", *map(str, files))
    assert results == [{"case": name, "equal": True} for name in NETWORKS]
