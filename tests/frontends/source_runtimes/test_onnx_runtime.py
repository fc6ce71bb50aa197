"""ONNX Runtime, and ONNX's reference evaluator where it is not installed, say what an ONNX file computes."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError
from passsearch.frontends.source_runtimes.onnx_runtime import OnnxSource


def save(path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], output: list[int]) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    graph = helper.make_graph(nodes, "network", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(path))


def test_both_runtimes_compute_the_same_and_take_inputs_by_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [helper.make_node("Elu", ["image"], ["e"], alpha=0.3), helper.make_node("Softmax", ["e"], ["y"], axis=1)]
    save(tmp_path / "network.onnx", nodes, {"image": [2, 8]}, [2, 8])
    source = ModelSource(tmp_path / "network.onnx", "onnx", {})
    image = np.random.default_rng(0).standard_normal((2, 8)).astype("float32")
    runtime = OnnxSource("").open_source(source)
    [expected] = runtime.run({"image": image})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    evaluator = OnnxSource("").open_source(source)
    [computed] = evaluator.run({"renamed": image})
    assert runtime.runtime.startswith("ONNX Runtime") and evaluator.runtime.startswith("ONNX's reference evaluator")
    assert runtime.output_names == evaluator.output_names == ["y"]
    np.testing.assert_allclose(computed, expected, rtol=1e-5, atol=1e-6)


def test_the_evaluator_refuses_operators_that_it_computes_inexactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=2, clip=0.5)]
    save(tmp_path / "lstm.onnx", nodes, {"x": [3, 1, 4], "w": [1, 8, 4], "r": [1, 8, 2]}, [3, 1, 1, 2])
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UserError, match="not exact for LSTM; run: pip install onnxruntime"):
        OnnxSource("").open_source(ModelSource(tmp_path / "lstm.onnx", "onnx", {}))
