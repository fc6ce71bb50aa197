"""Quantised ONNX networks whose float constants are moved by one rounding. Needs no TVM.

Two right ways to compute such a network in float32 differ by roundings, and a value that lies between two steps of an
integer goes to either of them. A deep network makes much of that: with random weights, one step of one value of the
input of a MobileNetV2 moves its outputs by 5 % of the largest. How much is to be found by running it so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from passsearch.dialects.reference import neighbours

QUANTIZES = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear")
"""Beginnings of the names of operators that round floats to integers."""

MOVED = frozenset({"Add", "Conv", "DequantizeLinear", "Gemm", "MatMul", "Mul", "QuantizeLinear"})
"""Operators whose float constants are moved, beside ``QLinear…``. Others may read an exponent, or sizes."""


def quantizes(model: onnx.ModelProto) -> bool:
    """Return whether a model rounds floats to integers."""
    return any(node.op_type.startswith(QUANTIZES) for node in model.graph.node)


def move_constants(model: onnx.ModelProto, *, seed: int) -> None:
    """Replace the numbers in float constants of a model by a neighbouring number, above or below at random.

    Args:
        model: The model with its weights, which is changed.
        seed: Decides the directions.
    """
    rng = np.random.default_rng(seed)
    moved, others = set[str](), set[str]()
    for node in model.graph.node:
        is_moved = node.op_type in MOVED or node.op_type.startswith("QLinear")
        (moved if is_moved else others).update(node.input)
    for name, tensor in _constants(model.graph):
        if name in moved - others and tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(neighbours(numpy_helper.to_array(tensor), rng), tensor.name))


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, TensorProto]]:
    yield from ((tensor.name, tensor) for tensor in graph.initializer)
    for node in graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            yield node.output[0], node.attribute[0].t
