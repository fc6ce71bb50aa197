"""Converters of ONNX operators that TVM's importer of Relay lacks or gets wrong.

* ``MatMul`` of a vector and a tensor of rank three or more is refused by TVM, and in some builds that of a tensor of
  rank four or more and a constant matrix: here the operands get ranks that TVM takes.
* ``Reduce*`` with axes as an input reduces the first axis only, or is refused. Infinities
  make ``ReduceLogSumExp`` no number.
* ``Gather``, ``GatherND`` and ``ScatterND`` read and write outside the tensor for a negative constant index.
* ``Gelu`` always computes ``erf``, also where the network asks for its approximation by ``tanh``.
* ``Unsqueeze`` puts axes that are given from the back to other places, if others are given from the front.
* ``Softmax`` and ``LogSoftmax`` before operator set 13 flatten the dimensions from the axis on.
* ``Resize`` of other axes than the last ones, as networks of TensorFlow have it, reads the scales of the last ones.
* Refused, because TVM computes something else: ``RoiAlign`` of half pixels or of the maximum; ``Resize`` with scales
  that give no whole size (but for aligned corners), with ``antialias``, ``axes`` or a policy for the aspect ratio, or
  to the nearest of asymmetric positions other than by rounding down; an inverse ``DFT`` of one side.

Recurrent layers, normalisations, windows of images, functions of elements and operators on shapes have modules of their
own beside this one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from tvm import relay
from tvm.relay.frontend import onnx as frontend
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.onnx_nodes import Inputs, replaced
from passsearch.dialects.refusal import refuse_single_corner, refuse_unread_resize
from passsearch.dialects.relay.importers.local_inference import dtype_of
from passsearch.dialects.relay.importers.onnx_elements import elements
from passsearch.dialects.relay.importers.onnx_norms import (
    batch_norm,
    in_float32,
    mean_variance_norm,
    per_channel_group_norm,
    per_group_group_norm,
)
from passsearch.dialects.relay.importers.onnx_recurrent import recurrent
from passsearch.dialects.relay.importers.onnx_shapes import (
    compress,
    eye_like,
    number_range,
    one_hot,
    optional_has_element,
    reshape,
    split,
    top_k,
)
from passsearch.dialects.relay.importers.onnx_windows import (
    average_pool,
    conv_transpose,
    global_lp_pool,
    grid_sample,
    lp_pool,
    max_pool,
    max_pool_with_indices,
    space_to_depth,
)

Converter: TypeAlias = Callable[[Any, Any, Any], Any]

REDUCTIONS = tuple(
    f"Reduce{kind}" for kind in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
)
ELEMENTWISE: Mapping[str, Callable[[Any], Any]] = {
    "ReduceL1": relay.abs,
    "ReduceL2": relay.abs,
    "ReduceLogSum": relay.log,
    "ReduceSumSquare": lambda data: data * data,
}
"""What reductions compute that reduce no axis, unless it is a copy."""

EXTREMES = {"ReduceMax": ("ReduceMin", -1.0), "ReduceMin": ("ReduceMax", 1.0)}
"""The other one of these reductions, and the sign of the number from which TVM starts each."""

RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")

LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")

INDEX_AXES: Mapping[str, Callable[[Mapping[str, Any], int], Sequence[int]]] = {
    "Gather": lambda attr, _: [attr.get("axis", 0)],
    "GatherND": lambda attr, depth: range(attr.get("batch_dims", 0), attr.get("batch_dims", 0) + depth),
    "ScatterND": lambda _, depth: range(depth),
}
"""Which axes of the data the last dimension of the indices counts, by operator."""

WITH_INDICES = "MaxPoolWithIndices"
"""The operator by which the importer calls a MaxPool with two outputs; TVM has two operators for it."""


def with_own(table: Callable[[int], Mapping[str, Any]]) -> Callable[[int], Mapping[str, Any]]:
    """Return the function that gives TVM's converters for an operator set, with ours in their place.

    TVM's importer asks for all converters at every node, and to make them takes as long as to convert a node.
    """

    @cache
    def converters(opset: int) -> Mapping[str, Any]:
        return {
            **table(opset),
            "MatMul": _matmul(frontend.MatMul.get_converter(opset)),
            **{name: _reduce(name) for name in REDUCTIONS},
            **{name: _positive(table(opset)[name], axes) for name, axes in INDEX_AXES.items()},
            **{name: _flattened(table(opset)[name]) for name in ("Softmax",) if opset < 13},
            **elements(opset, table(opset)),
            **{name: recurrent(name, opset, converters) for name in ("GRU", "LSTM", "RNN")},
            **dict.fromkeys(RANDOM, _draw),
            **dict.fromkeys(("Loop", "Scan"), _repeat),
            "AveragePool": average_pool,
            "BatchNormalization": batch_norm(table(opset)["BatchNormalization"], opset),
            "ConvTranspose": conv_transpose(table(opset)["ConvTranspose"]),
            "DFT": _dft(table(opset)["DFT"]),
            "Dropout": _dropout,
            "GlobalLpPool": global_lp_pool,
            "GridSample": grid_sample(table(opset)["GridSample"]),
            "LpPool": lp_pool,
            "MaxPool": max_pool,
            WITH_INDICES: max_pool_with_indices,
            "Compress": compress(table(opset)["Compress"]),
            "EyeLike": eye_like,
            "Range": number_range,
            "Reshape": reshape(table(opset)["Reshape"]),
            "Split": split(table(opset)["Split"]),
            "TopK": top_k,
            "SpaceToDepth": space_to_depth(table(opset)["SpaceToDepth"]),
            **{name: _of_labels(each) for name, each in table(opset).items() if name in LOSSES},
            "OneHot": one_hot(table(opset)["OneHot"]),
            "OptionalHasElement": optional_has_element,
            "Pad": _pad(table(opset)["Pad"]) if opset >= 11 else table(opset)["Pad"],
            "Resize": _resize(table(opset)["Resize"]),
            "RoiAlign": _roi_align(table(opset)["RoiAlign"], b"half_pixel" if opset >= 16 else b"output_half_pixel"),
            "Unsqueeze": _from_front(table(opset)["Unsqueeze"]),
            # Early versions of TVM lack it.
            **{name: _gelu(convert) for name, convert in table(opset).items() if name == "Gelu"},
            "GroupNormalization": in_float32(per_channel_group_norm if opset >= 21 else per_group_group_norm),
            "InstanceNormalization": in_float32(table(opset)["InstanceNormalization"]),
            "MeanVarianceNormalization": in_float32(mean_variance_norm),
        }

    return converters


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


def _reduce(name: str) -> Converter:
    """Return a converter that gives axes to the form of operator set 11, which has them as an attribute."""
    convert = frontend.__dict__[name].get_converter(11)

    def reduce(inputs: Any, attr: Any, params: Any) -> Any:
        data, *axes = list(inputs)[:2]
        if axes and axes[0] is not None:
            if not isinstance(axes[0], relay.Constant):
                raise NotImplementedError("Reduction over axes that are computed is not supported")
            given = [int(axis) for axis in axes[0].data.numpy()]
            attr = replaced(attr, axes=given) if given else attr
        if attr.get("noop_with_empty_axes") == 1 and "axes" not in attr:
            return ELEMENTWISE.get(name, relay.copy)(data)
        if name == "ReduceLogSumExp":
            return _log_sum_exp(data, attr)
        reduced = convert([data], attr, params)
        return _of_infinities(data, reduced, attr, name) if name in EXTREMES and "float" in dtype_of(data) else reduced

    return reduce


def _log_sum_exp(data: Any, attr: Any) -> Any:
    """Return the logarithm of sums of exponentials. The difference of an infinity from itself is no number."""
    axes, zero = attr.get("axes"), relay.const(0, dtype_of(data))
    largest = relay.max(data, axis=axes, keepdims=True)
    shift = relay.where(relay.isinf(largest), zero, largest)
    result = relay.log(relay.sum(relay.exp(data - shift), axis=axes, keepdims=True)) + shift
    return result if attr.get("keepdims", 1) else relay.squeeze(result, axes)


def _of_infinities(data: Any, reduced: Any, attr: Any, name: str) -> Any:
    """Return a reduction to the largest or smallest element, also where all of them are infinite.

    TVM starts it from the outermost finite number. That number as the result is true only if no element is infinite.
    """
    other, sign = EXTREMES[name]
    dtype = dtype_of(data)
    start, infinity = (relay.const(sign * value, dtype) for value in (float(np.finfo(dtype).max), np.inf))
    outermost = frontend.__dict__[other].get_converter(11)([data], attr, {})
    is_start = relay.logical_and(relay.equal(reduced, start), relay.equal(outermost, infinity))
    return relay.where(is_start, infinity, reduced)


def _positive(convert: Converter, axes_of: Callable[[Mapping[str, Any], int], Sequence[int]]) -> Converter:
    """Return a converter that gets indices counted from the start."""

    def gather(inputs: Any, attr: Any, params: Any) -> Any:
        data, indices, *rest = inputs
        shape, dtype = infer_shape(indices), dtype_of(indices)
        axes = axes_of(attr, shape[-1] if shape else 1)
        sizes = np.array([infer_shape(data)[axis] for axis in axes], dtype)
        if len(sizes) == 1:
            sizes = sizes[0]
        if not isinstance(indices, relay.Constant):
            counted = relay.where(
                relay.less(indices, relay.const(0, dtype)), indices + relay.const(sizes, dtype), indices
            )
        elif (indices.data.numpy() < 0).any():
            given = indices.data.numpy()
            counted = relay.const(np.where(given < 0, given + sizes, given), dtype)
        else:
            counted = indices
        return convert([data, counted, *rest], attr, params)

    return gather


def _pad(convert: Converter) -> Converter:
    """Return a converter that takes widths for some axes only."""

    def pad(inputs: Any, attr: Any, params: Any) -> Any:
        data, widths, value, axes = inputs[0], inputs[1], inputs[2], inputs[3]
        if attr.get("mode") == b"wrap":
            raise NotImplementedError("the attribute mode is not supported with the value wrap")
        if axes is None:
            return convert(inputs, attr, params)
        if not all(isinstance(each, relay.Constant) for each in (widths, axes)):
            raise NotImplementedError("Pad is not supported with axes or widths that are computed")
        places, rank = axes.data.numpy().tolist(), len(infer_shape(data))
        pairs = np.zeros((2, rank), "int64")
        pairs[:, places] = widths.data.numpy().reshape(2, len(places))
        return convert(Inputs([data, relay.const(pairs.ravel(), "int64"), value]), attr, params)

    return pad


def _dropout(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert the inference of Dropout, which drops nothing; its mask says so."""
    data, ratio, training = inputs[0], inputs[1], inputs[2]
    for value in (ratio, training):
        if value is not None and training is not None and not isinstance(value, relay.Constant):
            raise NotImplementedError(
                "Dropout is supported only if it is not training; export the network for inference"
            )
    if training is not None and training.data.numpy().any() and (ratio is None or ratio.data.numpy().any()):
        raise NotImplementedError("Dropout is supported only if it is not training; export the network for inference")
    attr.get("ratio")
    mask = relay.ones(infer_shape(data), "bool")
    # Not the data themselves, which would get the name of the output as their own.
    kept = relay.nn.dropout(data, 0.5)
    return relay.expr.TupleWrapper(relay.Tuple([kept, mask]), 2) if attr["tvm_custom"]["num_outputs"] > 1 else kept


def _dft(convert: Converter) -> Converter:
    def dft(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("inverse", 0) and attr.get("onesided", 0):
            raise NotImplementedError("DFT is not supported with both inverse and onesided")
        settings = {name: attr.get(name, default) for name, default in (("axis", 1), ("inverse", 0), ("onesided", 0))}
        return convert(inputs, replaced(attr, **settings), params)

    return dft


def _draw(inputs: Any, attr: Any, params: Any) -> Any:
    raise NotImplementedError("random numbers are not supported, as no two compilers draw the same; make them an input")


def _repeat(inputs: Any, attr: Any, params: Any) -> Any:
    raise NotImplementedError(
        "Relay builds fixed graphs, and `Loop` or `Scan` repeats calls; "
        "export the network with the loop unrolled, as tracing does"
    )


def _of_labels(convert: Converter) -> Converter:
    """Return a converter of a loss that refuses labels of which TVM does not know the type."""

    def loss(inputs: Any, attr: Any, params: Any) -> Any:
        if not isinstance(inputs[1], relay.Var):
            raise NotImplementedError("labels that are constant or computed are not supported; make them an input")
        return convert(inputs, attr, params)

    return loss


def _flattened(convert: Converter) -> Converter:
    def softmax(inputs: Any, attr: Any, params: Any) -> Any:
        shape = infer_shape(inputs[0])
        axis = attr.get("axis", 1) % len(shape)
        if all(size == 1 for size in shape[axis + 1 :]):
            return convert(inputs, attr, params)
        rows = relay.reshape(inputs[0], (math.prod(shape[:axis]), -1))
        return relay.reshape(convert([rows], {"axis": 1}, params), shape)

    return softmax


def _resize(convert: Converter) -> Converter:
    def resize(inputs: Any, attr: Any, params: Any) -> Any:
        where = attr.get("coordinate_transformation_mode", b"half_pixel"), attr.get("nearest_mode", b"")
        mode = attr.get("mode", b"nearest")
        if mode == b"nearest" and where[0] == b"asymmetric" and where[1] != b"floor":
            raise NotImplementedError("Resize to the nearest of asymmetric positions is supported with floor only")
        refuse_unread_resize(attr)
        held = Inputs(inputs)
        position = 1 if len(held) == 2 else 2
        sizes = infer_shape(held[0])
        scales = _numbers(held, position)
        targets = _numbers(held, 3) if scales is None else np.array(sizes) * scales
        # Aligned corners are at the ends of both images, whatever the scales.
        is_whole = scales is None or np.abs(targets - np.round(targets)).max() <= 1e-3
        if not is_whole and where[0] != b"align_corners":
            raise NotImplementedError("Resize with scales that give no whole size is not supported; give it sizes")
        is_last = targets is not None and where[0] != b"tf_crop_and_resize" and _is_channels_last(sizes, targets)
        if targets is not None:
            refuse_single_corner(attr, targets[1:-1] if is_last else targets[2:])
        attr = replaced(attr, mode=mode)
        if not is_last:
            return convert(held, attr, params)
        order = [0, len(sizes) - 1, *range(1, len(sizes) - 1)]
        for number, value in ((position, scales), (3, targets)):
            if value is not None and number < len(held) and _numbers(held, number) is not None:
                held[number] = relay.const(held[number].data.numpy()[order])
        held[0] = relay.transpose(held[0], order)
        return relay.transpose(convert(held, attr, params), [0, *range(2, len(sizes)), 1])

    return resize


def _numbers(inputs: Sequence[Any], position: int) -> Any:
    """Return the numbers of a constant input; ``None`` if it is empty, left out or computed."""
    value = inputs[position] if position < len(inputs) else None
    return value.data.numpy() if isinstance(value, relay.Constant) and value.data.numpy().size else None


def _is_channels_last(sizes: Sequence[int], targets: Sequence[float]) -> bool:
    """Return True if the second dimension changes its size, and the last one does not."""
    changes = [abs(target - size) > 1e-3 for size, target in zip(sizes, targets, strict=True)]
    return len(changes) > 2 and changes[1] and not changes[0] and not changes[-1]


def _roi_align(convert: Converter, default: bytes) -> Converter:
    def roi_align(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("coordinate_transformation_mode", default) != b"output_half_pixel":
            raise NotImplementedError("RoiAlign is supported with output_half_pixel only")
        if attr.get("mode", b"avg") != b"avg":
            raise NotImplementedError("RoiAlign is supported with the mode avg only")
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
        return convert([data], replaced(attr, axes=axes), params)

    return unsqueeze


def _gelu(convert: Converter) -> Converter:
    """Return a converter that computes the approximation by ``tanh`` where the network asks for it."""

    def gelu(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("approximate", b"none") != b"tanh":
            return convert(inputs, attr, params)
        data = inputs[0]
        dtype = dtype_of(data)
        half, one, cubic, slope = (relay.const(each, dtype) for each in (0.5, 1.0, 0.044715, math.sqrt(2 / math.pi)))
        return half * data * (one + relay.tanh(slope * (data + cubic * data * data * data)))

    return gelu
