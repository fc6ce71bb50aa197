"""Imports ONNX networks of one operator that we convert, runs them, and prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_relay_onnx_converters.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from passsearch.core import BuildOptions
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.bridge import RelayBridge

sys.path.insert(0, str(Path(__file__).parents[2] / "frontends"))

from onnx_graphs import constant, network, node, reference, value, weight

IMAGE = [value("x", [2, 4, 3, 5])]
WHOLE = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [0, 1, 1, 0], "ceil_mode": 1, "count_include_pad": 1}
GROUPS = {"num_groups": 2, "epsilon": 1e-3}


def group_norm(opset: int, size: int) -> onnx.ModelProto:
    return network(
        [node("GroupNormalization", "x scale shift", "y", **GROUPS)],
        IMAGE,
        ["y"],
        [weight("scale", size), weight("shift", size)],
        opset=opset,
        shape=[2, 4, 3, 5],
    )


CASES: dict[str, onnx.ModelProto] = {
    "row by tensor": network([node("MatMul", "row x", "y")], IMAGE, ["y"], [weight("row", 3)]),
    "tensor by column": network([node("MatMul", "x column", "y")], IMAGE, ["y"], [weight("column", 5)]),
    "tensor by matrix": network([node("MatMul", "x matrix", "y")], IMAGE, ["y"], [weight("matrix", 5, 6)]),
    "maximum over axes of an input": network(
        [node("ReduceMax", "x axes", "y", keepdims=0)], IMAGE, ["y"], [constant("axes", [-1, 1])], opset=18
    ),
    "gather from the end": network([node("Gather", "x i", "y", axis=1)], IMAGE, ["y"], [constant("i", [-1, 0])]),
    "gelu by tanh": network([node("Gelu", "x", "y", approximate="tanh")], IMAGE, ["y"], opset=20),
    "axes from both ends": network([node("Unsqueeze", "x", "y", axes=[-1, 1])], IMAGE, ["y"], opset=11),
    "axes from both ends, as an input": network(
        [node("Unsqueeze", "x axes", "y")], IMAGE, ["y"], [constant("axes", [-1, 1])], opset=13
    ),
    "softmax of rows": network([node("Softmax", "x", "y")], IMAGE, ["y"], opset=9),
    "mean of whole windows, rounded up": network([node("AveragePool", "x", "y", **WHOLE)], IMAGE, ["y"]),
    "group norm, per group": group_norm(18, 2),
    "group norm, per channel": group_norm(21, 4),
}


def expected(case: str, model: onnx.ModelProto, data: Any) -> Any:
    """Return the output of ONNX's reference implementation, or of the definition where it has none here."""
    if not case.startswith("group norm"):
        return reference(model, {"x": data})[0]
    scale, shift = (onnx.numpy_helper.to_array(each) for each in model.graph.initializer)
    groups = data.reshape(2, 2, -1)
    unit = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + GROUPS["epsilon"])
    repeats = 4 // len(scale)
    factors = [np.repeat(each, repeats).reshape(1, 4, 1, 1) for each in (scale, shift)]
    return unit.reshape(data.shape) * factors[0] + factors[1]


def main(folder: Path) -> None:
    data = np.random.default_rng(0).normal(size=(2, 4, 3, 5)).astype("float32")
    bridge = RelayBridge("llvm -mtriple=x86_64-unknown-linux-gnu")
    for number, (case, model) in enumerate(CASES.items()):
        path = folder / "case.onnx"
        onnx.save(model, str(path))
        module = bridge.load(ModelSource(path=path, format="onnx", inputs={}))
        artifact = bridge.build(module, BuildOptions(opt_level=0), folder / str(number))
        (actual,) = bridge.open(artifact, "cpu").run({"x": data})
        result = expected(case, model, data)
        same = actual.shape == result.shape and np.allclose(actual, result, atol=1e-5)
        print(json.dumps({"case": case, "same": bool(same)}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
