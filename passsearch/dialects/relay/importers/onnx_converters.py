"""Converters of ONNX operators that TVM's importer of Relay lacks or gets wrong.

* ``MatMul`` of a vector and a tensor of rank three or more is refused by TVM, and in some builds that of a tensor of
  rank four or more and a constant matrix: here the operands get ranks that TVM takes.
* ``GroupNormalization`` is missing.
* ``Reduce*`` with axes as an input reduces the first axis only, or is refused.
* ``Gather``, ``GatherND`` and ``ScatterND`` read and write outside the tensor for a negative constant index.
* ``Gelu`` always computes ``erf``, also where the network asks for its approximation by ``tanh``.
* ``Unsqueeze`` puts axes that are given from the back to other places, if others are given from the front.
* ``Softmax`` and ``LogSoftmax`` before operator set 13 flatten the dimensions from the axis on.
* Refused, because TVM computes something else: ``AveragePool`` and ``MaxPool`` that pad and round their size up, unless
  the size is whole; ``ConvTranspose`` with automatic padding; ``RoiAlign`` of half pixels; ``Resize`` with scales that
  give no whole size, with ``antialias``, ``axes`` or a policy for the aspect ratio, or to the nearest of asymmetric
  positions other than by rounding down.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from tvm import relay
from tvm.relay.frontend import onnx as frontend
from tvm.relay.frontend.common import infer_shape, infer_type

from passsearch.dialects.refusal import refuse_unread_resize

Converter: TypeAlias = Callable[[Any, Any, Any], Any]

REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
INDEX_AXES: Mapping[str, Callable[[Mapping[str, Any], int], Sequence[int]]] = {
    "Gather": lambda attr, _: [attr.get("axis", 0)],
    "GatherND": lambda attr, depth: range(attr.get("batch_dims", 0), attr.get("batch_dims", 0) + depth),
    "ScatterND": lambda _, depth: range(depth),
}
"""Which axes of the data the last dimension of the indices counts, by operator."""


def with_own(table: Callable[[int], Mapping[str, Any]]) -> Callable[[int], Mapping[str, Any]]:
    """Return the function that gives TVM's converters for an operator set, with ours in their place.

    TVM's importer asks for all converters at every node, and to make them takes as long as to convert a node.
    """
    return cache(
        lambda opset: {
            **table(opset),
            "MatMul": _matmul(frontend.MatMul.get_converter(opset)),
            **{name: _reduce(frontend.__dict__[name].get_converter(11)) for name in REDUCTIONS},
            **{name: _positive(table(opset)[name], axes) for name, axes in INDEX_AXES.items()},
            **{name: _rounded(name, table(opset)[name]) for name in ("AveragePool", "MaxPool")},
            **{name: _flattened(table(opset)[name]) for name in ("Softmax", "LogSoftmax") if opset < 13},
            "ConvTranspose": _conv_transpose(table(opset)["ConvTranspose"]),
            "Resize": _resize(table(opset)["Resize"]),
            "RoiAlign": _roi_align(table(opset)["RoiAlign"], b"half_pixel" if opset >= 16 else b"output_half_pixel"),
            "Unsqueeze": _from_front(table(opset)["Unsqueeze"]),
            # Early versions of TVM lack it.
            **{name: _gelu(convert) for name, convert in table(opset).items() if name == "Gelu"},
            "GroupNormalization": _per_channel_group_norm if opset >= 21 else _per_group_group_norm,
        }
    )


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


def _reduce(convert: Converter) -> Converter:
    """Return a converter that gives axes to the form of operator set 11, which has them as an attribute."""

    def reduce(inputs: Any, attr: Any, params: Any) -> Any:
        data, *axes = list(inputs)[:2]
        if axes and axes[0] is not None:
            if not isinstance(axes[0], relay.Constant):
                raise NotImplementedError("Reduction over axes that are computed is not supported")
            given = [int(axis) for axis in axes[0].data.numpy()]
            attr = {**attr, "axes": given} if given else attr
        if attr.get("noop_with_empty_axes") and "axes" not in attr:
            return data
        return convert([data], attr, params)

    return reduce


def _positive(convert: Converter, axes_of: Callable[[Mapping[str, Any], int], Sequence[int]]) -> Converter:
    """Return a converter that gets constant indices counted from the start."""

    def gather(inputs: Any, attr: Any, params: Any) -> Any:
        data, indices, *rest = inputs
        if not isinstance(indices, relay.Constant):
            return convert(inputs, attr, params)
        given = indices.data.numpy()
        axes = axes_of(attr, given.shape[-1] if given.ndim else 1)
        if (given >= 0).all():
            return convert(inputs, attr, params)
        sizes = np.array([infer_shape(data)[axis] for axis in axes], given.dtype)
        counted = relay.const(np.where(given < 0, given + sizes, given), str(given.dtype))
        return convert([data, counted, *rest], attr, params)

    return gather


def _rounded(name: str, convert: Converter) -> Converter:
    """Return a converter of pooling that rounds its size up only where that makes a difference."""

    def pool(inputs: Any, attr: Any, params: Any) -> Any:
        if not attr.get("ceil_mode"):
            return convert(inputs, attr, params)
        if _is_whole(infer_shape(inputs[0])[2:], attr):
            return convert(inputs, {**attr, "ceil_mode": 0}, params)
        if any(attr.get("pads", ())) or attr.get("count_include_pad"):
            raise NotImplementedError(
                f"{name} with ceil_mode is not supported with pads or count_include_pad where the size is not whole"
            )
        return convert(inputs, attr, params)

    return pool


def _is_whole(sizes: Sequence[int], attr: Mapping[str, Any]) -> bool:
    """Return whether the windows of a pooling cover the padded image without a rest."""
    if attr.get("auto_pad", b"NOTSET") != b"NOTSET":
        return False
    ones, kernel, pads = [1] * len(sizes), attr["kernel_shape"], attr.get("pads", [0] * 2 * len(sizes))
    strides, dilations = attr.get("strides", ones), attr.get("dilations", ones)
    lengths = [size + sum(pads[axis :: len(sizes)]) for axis, size in enumerate(sizes)]
    return all(
        (length - dilation * (width - 1) - 1) % stride == 0
        for length, width, stride, dilation in zip(lengths, kernel, strides, dilations, strict=True)
    )


def _flattened(convert: Converter) -> Converter:
    def softmax(inputs: Any, attr: Any, params: Any) -> Any:
        shape = infer_shape(inputs[0])
        axis = attr.get("axis", 1) % len(shape)
        if all(size == 1 for size in shape[axis + 1 :]):
            return convert(inputs, attr, params)
        rows = relay.reshape(inputs[0], (math.prod(shape[:axis]), -1))
        return relay.reshape(convert([rows], {"axis": 1}, params), shape)

    return softmax


def _conv_transpose(convert: Converter) -> Converter:
    def conv_transpose(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER"):
            raise NotImplementedError("ConvTranspose with auto_pad is not supported; give it pads")
        return convert(inputs, attr, params)

    return conv_transpose


def _resize(convert: Converter) -> Converter:
    def resize(inputs: Any, attr: Any, params: Any) -> Any:
        where = attr.get("coordinate_transformation_mode", b"half_pixel"), attr.get("nearest_mode", b"")
        if attr.get("mode", b"nearest") == b"nearest" and where[0] == b"asymmetric" and where[1] != b"floor":
            raise NotImplementedError("Resize to the nearest of asymmetric positions is supported with floor only")
        refuse_unread_resize(attr)
        scales = inputs[1 if len(inputs) == 2 else 2] if len(inputs) > 1 else None
        if isinstance(scales, relay.Constant) and scales.data.numpy().size:
            sizes = np.array(infer_shape(inputs[0])) * scales.data.numpy()
            if np.abs(sizes - np.round(sizes)).max() > 1e-3:
                raise NotImplementedError("Resize with scales that give no whole size is not supported; give it sizes")
        return convert(inputs, attr, params)

    return resize


def _roi_align(convert: Converter, default: bytes) -> Converter:
    def roi_align(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("coordinate_transformation_mode", default) != b"output_half_pixel":
            raise NotImplementedError("RoiAlign is supported with output_half_pixel only")
        return convert(inputs, attr, params)

    return roi_align


def _from_front(convert: Converter) -> Converter:
    """Return a converter that counts new axes from the front, also those that are given from the back."""

    def unsqueeze(inputs: Any, attr: Any, params: Any) -> Any:
        data, *given = inputs
        if given and not isinstance(given[0], relay.Constant):
            return convert(inputs, attr, params)
        axes = [int(axis) for axis in (given[0].data.numpy() if given else attr["axes"])]
        if all(axis >= 0 for axis in axes):
            return convert(inputs, attr, params)
        rank = len(infer_shape(data)) + len(axes)
        axes = sorted(axis % rank for axis in axes)
        if given:
            return convert([data, relay.const(axes, "int64")], attr, params)
        return convert([data], {**attr, "axes": axes}, params)

    return unsqueeze


def _gelu(convert: Converter) -> Converter:
    """Return a converter that computes the approximation by ``tanh`` where the network asks for it."""

    def gelu(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("approximate", b"none") != b"tanh":
            return convert(inputs, attr, params)
        data = inputs[0]
        dtype = infer_type(data).checked_type.dtype
        half, one, cubic, slope = (relay.const(each, dtype) for each in (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi)))
        return half * data * (one + relay.tanh(slope * (data + cubic * data * data * data)))

    return gelu


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
