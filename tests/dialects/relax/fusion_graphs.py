"""Two graphs of TVM's users that suffer from too much or too little fusion.

* ``exponentials`` (apache/tvm #20342): a chain of eight ``exp`` on [1024, 1], added to a matrix of [1024, 1024]. Fused,
  the chain runs for every element of the matrix. The report has 4096 rows in float16.
* ``pools`` (apache/tvm #20401): nine additions and two levels of concatenations, a max pool and two additions, both of
  which are outputs.
"""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

DEPTH, ROWS = 8, 1024
BRANCHES, CHANNELS, SIDE = 3, 16, 64


def exponentials(depth: int = DEPTH, rows: int = ROWS) -> onnx.ModelProto:
    """Return ``b + z`` with ``z = exp(x - z / 2)``, ``depth`` times from ``z = x``."""
    nodes, value = [], "x"
    for step in range(depth):
        nodes += [
            helper.make_node("Mul", [value, "half"], [f"half{step}"]),
            helper.make_node("Sub", ["x", f"half{step}"], [f"rest{step}"]),
            helper.make_node("Exp", [f"rest{step}"], [f"exp{step}"]),
        ]
        value = f"exp{step}"
    nodes.append(helper.make_node("Add", ["b", value], ["y"]))
    return _model(nodes, {"x": [rows, 1], "b": [rows, rows]}, {"y": [rows, rows]}, {"half": 0.5})


def pools(branches: int = BRANCHES, channels: int = CHANNELS, side: int = SIDE) -> onnx.ModelProto:
    """Return additions, concatenations, a max pool and two additions."""
    nodes: list[NodeProto] = []
    for outer in range(branches):
        leaves = [f"leaf{outer}_{inner}" for inner in range(branches)]
        nodes += [helper.make_node("Add", ["x", "one"], [leaf]) for leaf in leaves]
        nodes.append(helper.make_node("Concat", leaves, [f"joined{outer}"], axis=1))
        nodes.append(helper.make_node("Add", [f"joined{outer}", "one"], [f"branch{outer}"]))
    nodes += [
        helper.make_node("Concat", [f"branch{outer}" for outer in range(branches)], ["joined"], axis=1),
        helper.make_node("MaxPool", ["joined"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["pool", "one"], ["y"]),
        helper.make_node("Add", ["y", "one"], ["z"]),
    ]
    shape = [1, channels * branches * branches, side // 2, side // 2]
    return _model(nodes, {"x": [1, channels, side, side]}, {"y": shape, "z": shape}, {"one": 1.0})


def _model(
    nodes: list[NodeProto], inputs: dict[str, list[int]], outputs: dict[str, list[int]], numbers: dict[str, float]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "fusion",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(value, "float32"), name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


GRAPHS: dict[str, Callable[[], onnx.ModelProto]] = {"exponentials": exponentials, "pools": pools}
