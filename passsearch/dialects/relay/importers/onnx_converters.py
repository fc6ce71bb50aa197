"""Converters of ONNX operators that TVM's importer of Relay lacks or gets wrong.

* ``MatMul`` of a vector and a tensor of rank three or more is refused by TVM, and in some builds that of a tensor of
  rank four or more and a constant matrix: here the operands get ranks that TVM takes.
* ``GroupNormalization`` is missing.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from tvm import relay
from tvm.relay.frontend import onnx as frontend
from tvm.relay.frontend.common import infer_shape

Converter: TypeAlias = Callable[[Any, Any, Any], Any]


def with_own(table: Callable[[int], Mapping[str, Any]]) -> Callable[[int], Mapping[str, Any]]:
    """Return the function that gives TVM's converters for an operator set, with ours in their place."""
    return lambda opset: {
        **table(opset),
        "MatMul": _matmul(frontend.MatMul.get_converter(opset)),
        "GroupNormalization": _per_channel_group_norm if opset >= 21 else _per_group_group_norm,
    }


def _matmul(convert: Converter) -> Converter:
    def matmul(inputs: Any, attr: Any, params: Any) -> Any:
        shapes = [infer_shape(each) for each in inputs]
        ranks = [len(shape) for shape in shapes]
        if ranks[0] > 3 and ranks[1] == 2 and all(isinstance(size, int) for size in shapes[0]):
            # The batches and rows of the left operand are one list of rows for a matrix that all of them share.
            *outer, depth = shapes[0]
            rows = relay.reshape(inputs[0], (1, math.prod(outer), depth))
            return relay.reshape(convert([rows, inputs[1]], attr, params), (*outer, shapes[1][1]))
        if min(ranks) > 1 or max(ranks) < 3:
            return convert(inputs, attr, params)
        # The vector is a row on the left, a column on the right; ONNX removes that dimension from the product. It gets
        # all dimensions of the other operand, because TVM broadcasts batches of equal rank only.
        side = ranks.index(1)
        size = shapes[side][0]
        sides = list(inputs)
        sides[side] = relay.reshape(sides[side], (1,) * (max(ranks) - 2) + ((size, 1) if side else (1, size)))
        return relay.squeeze(convert(sides, attr, params), axis=[-1 if side else -2])

    return matmul


def _per_channel_group_norm(inputs: Any, attr: Any, params: Any) -> Any:
    data, scale, shift = inputs
    return relay.nn.group_norm(
        data, scale, shift, num_groups=int(attr["num_groups"]), axis=1, epsilon=float(attr.get("epsilon", 1e-5))
    )


def _per_group_group_norm(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert the form of operator sets 18 to 20, which has one scale and one shift for each group."""
    data, *factors = inputs
    channels = infer_shape(data)[1] // int(attr["num_groups"])
    return _per_channel_group_norm([data, *(relay.repeat(each, channels, axis=0) for each in factors)], attr, params)
