"""Conversions of ONNX graphs to PyTorch and JAX compute what ONNX Runtime does, or refuse the operator."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from passsearch.core import TensorType
from passsearch.engines import EnginePlan, compare, engine_spec

PLAN = EnginePlan(threads=1, processes=1, rounds=2, visit_s=0.01, pause_s=0.0)
CASES = {
    "transA of the ONNX operator Gemm": ("Gemm", [4, 8], {"alpha": 1.0, "beta": 1.0, "transA": 1, "transB": 1}),
    "this form of the ONNX operator Flatten": ("Flatten", [2, 3, 4, 4], {"axis": 2}),
    "this form of the ONNX operator Squeeze": ("Squeeze", [1, 3], {}),
    "this form of the ONNX operator Clip": ("Clip", [1, 3], {}),
    "the ONNX operator GlobalAveragePool with 3 axes": ("GlobalAveragePool", [1, 3, 8], {}),
    "auto_pad of the ONNX operator Conv": ("Conv", [1, 3, 8, 8], {"auto_pad": "SAME_UPPER"}),
    "the ONNX operator HardSwish": ("HardSwish", [1, 3], {}),
}
"""Message, and the operator with the shape of its data and its attributes."""


def save(path: Path, nodes: Sequence[onnx.NodeProto], constants: dict[str, Any], *, shape: Sequence[int]) -> Path:
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    data = helper.make_tensor_value_info("data", onnx.TensorProto.FLOAT, shape)
    result = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "one", [data], [result], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.save(model, str(path))
    return path


@pytest.mark.parametrize("engine", ["torch", "xla"])
def test_a_network_with_the_names_that_exporters_write(
    engine: str, request: pytest.FixtureRequest, onnxruntime_python: Path, tmp_path: Path
) -> None:
    python = request.getfixturevalue(f"{engine}_python")
    draw = np.random.default_rng(0).standard_normal
    weights = {"conv1.weight": draw((8, 3, 3, 3)), "conv1.bias": draw(8), "fc.weight": draw((5, 8))}
    constants = {name: array.astype(np.float32) for name, array in weights.items()}
    window = {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1], "dilations": [1, 1], "group": 1}
    nodes = [
        helper.make_node("Conv", ["data", "conv1.weight", "conv1.bias"], ["a"], **window),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"], axis=1),
        helper.make_node("Gemm", ["c", "fc.weight"], ["y"], alpha=1.0, beta=1.0, transB=1),
    ]
    network = save(tmp_path / "network.onnx", nodes, constants, shape=[1, 3, 8, 8])
    reference = engine_spec("onnxruntime", network, python=onnxruntime_python)
    types = {"data": TensorType((1, 3, 8, 8), "float32")}
    specs = [engine_spec(engine, network, python=python)]
    comparison = compare(specs, reference=reference, types=types, plan=PLAN, folder=tmp_path / "rounds")
    assert comparison.records[0].failure == ""


@pytest.mark.parametrize("engine", ["torch", "xla"])
@pytest.mark.parametrize("message", CASES)
def test_a_form_that_no_rule_computes_is_refused(
    engine: str, message: str, request: pytest.FixtureRequest, onnxruntime_python: Path, tmp_path: Path
) -> None:
    if engine == "xla" and ("Flatten" in message or "Pool" in message):
        pytest.skip("JAX's rules compute every form of Flatten, and refuse such a pool in their own words")
    python = request.getfixturevalue(f"{engine}_python")
    operator, shape, attributes = CASES[message]
    constants: dict[str, Any] = {"w": np.ones((5, 4), np.float32), "k": np.ones((2, 3, 3, 3), np.float32)}
    inputs = {"Gemm": ["data", "w"], "Conv": ["data", "k"], "Clip": ["data", "", "high"]}.get(operator, ["data"])
    constants["high"] = np.float32(1)
    used = {name: value for name, value in constants.items() if name in inputs}
    node = helper.make_node(operator, inputs, ["y"], **attributes)
    network = save(tmp_path / "network.onnx", [node], used, shape=shape)
    reference = engine_spec("onnxruntime", network, python=onnxruntime_python)
    types = {"data": TensorType(tuple(shape), "float32")}
    specs = [engine_spec(engine, network, python=python)]
    comparison = compare(specs, reference=reference, types=types, plan=PLAN, folder=tmp_path / "rounds")
    assert f"no rule for {message}" in comparison.records[0].failure
