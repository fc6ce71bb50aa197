"""Checks of the scales and zero points of quantised ONNX networks, before an importer reads them.

TVM's importers take scales that stand for no numbers, and zero points of another type than the data, and the network
then computes something else, or infinities. Here such a network is refused. Scales and zero points that are computed at
run time are not checked. Needs no TVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, helper

from passsearch.core import TensorType
from passsearch.dialects.contract import Array
from passsearch.dialects.onnx_blocks import Constants, constant_tensors
from passsearch.dialects.onnx_nodes import Node

AGAIN = "quantise the network again"
"""What a user can do about each of these faults."""


@dataclass(frozen=True)
class _Quantised:
    """The places of a quantised tensor among the inputs of a node; ``None`` for what is no input.

    Attributes:
        data: Place of the integers.
        scale: Place of their scale.
        zero: Place of their zero point.
        axis: Axis of the integers that may have a scale for each index; ``None`` where one number is for all.
    """

    data: int | None
    scale: int | None
    zero: int
    axis: int | None = None


_UNARY = (_Quantised(0, 1, 2), _Quantised(None, 3, 4))
_BINARY = (_Quantised(0, 1, 2), _Quantised(3, 4, 5), _Quantised(None, 6, 7))

_OPERATORS: Mapping[str, tuple[_Quantised, ...]] = {
    "QLinearConv": (_Quantised(0, 1, 2), _Quantised(3, 4, 5, axis=0), _Quantised(None, 6, 7)),
    "QLinearMatMul": (_Quantised(0, 1, 2), _Quantised(3, 4, 5, axis=-1), _Quantised(None, 6, 7)),
    "QLinearAdd": _BINARY,
    "QLinearMul": _BINARY,
    "QLinearGlobalAveragePool": _UNARY,
    "QLinearSigmoid": _UNARY,
    "QLinearLeakyRelu": _UNARY,
    "ConvInteger": (_Quantised(0, None, 2), _Quantised(1, None, 3, axis=0)),
    "MatMulInteger": (_Quantised(0, None, 2, axis=-2), _Quantised(1, None, 3, axis=-1)),
}
"""Quantised tensors by operator, where attributes do not decide."""


def check_scales(
    model: onnx.ModelProto, nodes: Mapping[str, Node], inputs: Mapping[str, TensorType], *, folder: Path
) -> None:
    """Refuse a network with a scale or a zero point that stands for no numbers.

    Args:
        model: The network, whose nodes have the names of ``nodes``.
        nodes: Its nodes, with the types of their outputs.
        inputs: The types of its inputs.
        folder: Folder of its file, where other files may have its weights.

    Raises:
        NotImplementedError: With the operator and what is wrong.
    """
    tensors = constant_tensors(model)
    types: dict[str, TensorType | None] = {
        name: TensorType(tuple(each.dims), str(helper.tensor_dtype_to_np_dtype(each.data_type)))
        for name, each in tensors.items()
    }
    types |= {output.name: output.type for node in nodes.values() for output in node.outputs} | dict(inputs)
    for node in model.graph.node:
        for tensor in _quantised(node):
            _check(Constants(tensors, folder, node), tensor, types)


def _quantised(node: NodeProto) -> Iterator[_Quantised]:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
        if not attributes.get("block_size", 0):
            yield _Quantised(0, 1, 2, axis=int(attributes.get("axis", 1)))
    elif node.op_type == "QGemm":
        yield from (_Quantised(0, 1, 2), _Quantised(3, 4, 5, axis=0 if attributes.get("transB", 0) else 1))
        yield _Quantised(None, 7, 8)
    elif node.op_type == "QLinearConcat":
        yield _Quantised(None, 0, 1)
        yield from (_Quantised(place, place + 1, place + 2) for place in range(2, len(node.input), 3))
    else:
        yield from _OPERATORS.get(node.op_type, ())


def _check(constants: Constants, tensor: _Quantised, types: Mapping[str, TensorType | None]) -> None:
    """Refuse scales and zero points of one quantised tensor of a node."""
    data = None if tensor.data is None else types.get(constants.node.input[tensor.data])
    scale = None if tensor.scale is None else constants.known(tensor.scale)
    zero = constants.known(tensor.zero)
    for what, array in (("scales", scale), ("zero points", zero)):
        if array is not None and (reason := _length_fault(what, array, tensor.axis, data)):
            raise constants.refuse(f"{reason}; {AGAIN}")
    # Others, such as QLinearConv, take one zero point for all scales.
    takes_one = constants.node.op_type not in ("QuantizeLinear", "DequantizeLinear")
    if scale is not None and zero is not None and scale.size != zero.size and not (takes_one and zero.size == 1):
        counts = f"the number of scales is {scale.size} and that of zero points {zero.size}"
        raise constants.refuse(f"{counts}, and each scale needs one zero point; {AGAIN}")
    if zero is not None and (reason := _zero_fault(constants, tensor, data, zero)):
        raise constants.refuse(f"{reason}; {AGAIN}")
    if scale is not None:
        numbers = None if tensor.data is None else constants.known(tensor.data)
        wrong = _wrong_scale(scale, zero, numbers, tensor.axis)
        if wrong is not None:
            raise constants.refuse(f"a scale is {wrong:g}, and has to be a finite number above 0; {AGAIN}")


def _length_fault(what: str, array: Array, axis: int | None, data: TensorType | None) -> str:
    """Return why scales or zero points do not fit the data; empty if they do, or the shape is unknown."""
    if array.size == 1:
        return ""
    if axis is None or array.ndim > 1:
        allowed = "one number" if axis is None else "one number, or a list of one for each index of an axis"
        return f"{what} have the shape {list(array.shape)}, and have to be {allowed}"
    if data is None:
        return ""
    if not -len(data.shape) <= axis < len(data.shape):
        return f"there is no axis {axis} in data of shape {list(data.shape)}, where each index has {what} of its own"
    size = data.shape[axis]
    wrong = size is not None and array.size != size
    return f"{array.size} {what} are not one for each of the {size} indices of axis {axis}" if wrong else ""


def _zero_fault(constants: Constants, tensor: _Quantised, data: TensorType | None, zero: Array) -> str:
    """Return why a zero point is not one of the data; empty if it is."""
    # QuantizeLinear reads floats, and the type of its zero points is that of its result.
    is_read = data is not None and constants.node.op_type != "QuantizeLinear"
    if data is not None and is_read and str(zero.dtype) != data.dtype:
        return f"zero points are {zero.dtype} and the data is {data.dtype}, and both have to be of one type"
    if zero.dtype.kind not in "iu":  # 4 bits, and floats of 8, which importers refuse
        return ""
    if zero.dtype == np.int32 and zero.any():
        return f"a zero point of int32 is {zero.flat[np.flatnonzero(zero)[0]]}, and has to be 0"
    limits = np.iinfo(zero.dtype)
    # ONNX stores integers of 8 bits in fields of 32.
    beyond = [value for value in constants.stored(tensor.zero) if not limits.min <= value <= limits.max]
    return f"a zero point is {beyond[0]}, and {zero.dtype} is from {limits.min} to {limits.max}" if beyond else ""


def _wrong_scale(scale: Array, zero: Array | None, numbers: Array | None, axis: int | None) -> float | None:
    """Return a scale that stands for no numbers; one of 0 stands for constants that are all zero."""
    values = scale.astype("float64").reshape(-1)
    wrong = ~(np.isfinite(values) & (values > 0))
    if not wrong.any():
        return None
    if numbers is not None and (values[wrong] == 0).all():
        # The axis of the scales comes first, so that a row belongs to each.
        rows = numbers.reshape(1, -1) if scale.size == 1 else np.moveaxis(numbers, axis or 0, 0).reshape(scale.size, -1)
        middle = np.zeros(1) if zero is None else zero.reshape(-1)
        if (rows[wrong] == (middle[wrong] if zero is not None else middle)[:, None]).all():
            return None
    return float(values[wrong][0])
