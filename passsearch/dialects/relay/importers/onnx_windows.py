"""Converters of ONNX's operators on windows of an image that TVM's importer of Relay gets wrong.

* Pooling with ``ceil_mode``: TVM counts windows that begin behind the image, and means over their padding.
* ``MaxPool`` takes ``storage_order``, which tells how the indices of a second output count, for a layout of the image;
  its indices are those within a window.
* ``LpPool`` takes powers of negative numbers; ``GlobalLpPool`` has the same fault.
* ``ConvTranspose`` with automatic padding or an ``output_shape`` gets other pads than ONNX defines, and TVM does not
  build it with dilations.
* ``GridSample`` has other names for its modes since operator set 20.
* ``SpaceToDepth`` has a mode since operator set 26, which TVM does not read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from tvm import relay
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.onnx_nodes import replaced
from passsearch.dialects.relay.importers.local_inference import dtype_of

Converter: TypeAlias = Callable[[Any, Any, Any], Any]

LAYOUTS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}

_SAME = (b"SAME_UPPER", b"SAME_LOWER")


@dataclass(frozen=True)
class Windows:
    """The windows of a pooling along one axis.

    Attributes:
        size: Elements of the image.
        kernel: Elements of a window.
        stride: Elements from one window to the next.
        dilation: Elements from one element of a window to the next.
        pads: Elements before and after the image.
        count: Number of windows.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    pads: tuple[int, int]
    count: int

    def positions(self) -> Any:
        """Return the positions of a window's elements in the image, one row a window; some are outside of it."""
        starts = np.arange(self.count) * self.stride - self.pads[0]
        return starts[:, None] + np.arange(self.kernel) * self.dilation

    def padding(self) -> tuple[int, int]:
        """Return the widths of padding that give this number of windows, where sizes are rounded down."""
        span = (self.kernel - 1) * self.dilation + 1
        return self.pads[0], max(0, (self.count - 1) * self.stride + span - self.size - self.pads[0])


def windows(sizes: Sequence[Any], attr: Any) -> list[Windows]:
    """Return the windows of a pooling by axis, as ONNX defines them.

    Args:
        sizes: Sizes of the image.
        attr: Attributes of the pooling.
    """
    if not all(isinstance(size, int) for size in sizes):
        raise NotImplementedError("pooling is not supported with open sizes; give the inputs sizes")
    rank, mode = len(sizes), attr.get("auto_pad", b"NOTSET")
    ones, pads, rounds_up = [1] * rank, attr.get("pads", [0] * 2 * rank), attr.get("ceil_mode", 0)
    columns = zip(
        sizes,
        attr["kernel_shape"],
        attr.get("strides", ones),
        attr.get("dilations", ones),
        pads,
        pads[rank:],
        strict=False,
    )
    return [_along(*column[:4], pads=column[4:], mode=mode, rounds_up=bool(rounds_up)) for column in columns]


def _along(
    size: int, kernel: int, stride: int, dilation: int, *, pads: tuple[int, int], mode: bytes, rounds_up: bool
) -> Windows:
    span = (kernel - 1) * dilation + 1
    if mode not in (*_SAME, b"VALID", b"NOTSET"):
        raise NotImplementedError(f"the attribute auto_pad is not supported with the value {mode.decode()}")
    if mode in _SAME:
        count = -(-size // stride)
        total = max(0, (count - 1) * stride + span - size)
        before = total // 2 if mode == b"SAME_UPPER" else total - total // 2
        return Windows(size, kernel, stride, dilation, (before, total - before), count)
    before, after = (0, 0) if mode == b"VALID" else pads
    rest = size + before + after - span
    count = rest // stride + 1
    # No window begins behind the image.
    if rounds_up and rest % stride and count * stride < size + before:
        count += 1
    return Windows(size, kernel, stride, dilation, (before, after), count)


def _pool(kind: str, data: Any, axes: Sequence[Windows], **settings: Any) -> Any:
    padding = [axis.padding() for axis in axes]
    function = getattr(relay.nn, f"{kind}_pool{len(axes)}d", None)
    if function is None:
        raise NotImplementedError("pooling is supported over one to three axes only")
    return function(
        data,
        pool_size=tuple(axis.kernel for axis in axes),
        strides=tuple(axis.stride for axis in axes),
        dilation=tuple(axis.dilation for axis in axes),
        padding=tuple(before for before, _ in padding) + tuple(after for _, after in padding),
        layout=LAYOUTS[len(axes)],
        **settings,
    )


def max_pool(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert a MaxPool with one output."""
    return _pool("max", inputs[0], windows(infer_shape(inputs[0])[2:], attr))


def max_pool_with_indices(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert a MaxPool with two outputs."""
    pair = relay.Tuple([max_pool(inputs, attr, params), _indices(inputs[0], attr)])
    return relay.expr.TupleWrapper(pair, 2)


def _indices(data: Any, attr: Any) -> Any:
    """Return the indices of the largest elements in the whole tensor, by a table of the elements of each window."""
    batch, channels, *sizes = infer_shape(data)
    axes = windows(sizes, attr)
    outputs = [axis.count for axis in axes]
    table, is_inside = _elements(axes, sizes)
    flat = relay.reshape(data, (batch, channels, -1))
    members = relay.reshape(
        relay.take(flat, relay.const(table.ravel(), "int32"), axis=2), (batch, channels, *table.shape)
    )
    lowest = relay.const(-np.inf if "float" in dtype_of(data) else np.iinfo(dtype_of(data)).min, dtype_of(data))
    choice = relay.argmax(relay.where(relay.const(is_inside), members, lowest), axis=[3], keepdims=True)
    if attr.get("storage_order", 0):
        places = np.stack(np.unravel_index(table, sizes))
        table = np.ravel_multi_index(tuple(places[::-1]), sizes[::-1])
    numbers = relay.const(np.broadcast_to(table, (batch, channels, *table.shape)).copy(), "int64")
    within = relay.squeeze(relay.gather(numbers, 3, relay.cast(choice, "int64")), axis=[3])
    first = np.arange(batch * channels, dtype="int64").reshape(batch, channels, 1) * math.prod(sizes)
    return relay.reshape(within + relay.const(first, "int64"), (batch, channels, *outputs))


def _elements(axes: Sequence[Windows], sizes: Sequence[int]) -> tuple[Any, Any]:
    """Return the flat positions of the elements of each window, one row a window, and which are in the image."""
    grids = [axis.positions() for axis in axes]
    rows = [np.array(row) for row in itertools.product(*(range(axis.count) for axis in axes))]
    flat, inside = [], []
    for row in rows:
        places = np.array(list(itertools.product(*(grid[index] for grid, index in zip(grids, row, strict=True)))))
        is_inside: Any = ((places >= 0) & (places < np.array(sizes))).all(1)
        flat.append(
            np.where(is_inside, np.ravel_multi_index(tuple(np.where(is_inside[:, None], places, 0).T), sizes), 0)
        )
        inside.append(is_inside)
    return np.array(flat), np.array(inside)


def average_pool(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert AveragePool; windows that reach into the padding count what ONNX counts."""
    data = inputs[0]
    axes = windows(infer_shape(data)[2:], attr)
    counts_pads = bool(attr.get("count_include_pad", 0))
    counts = _counts(axes, counts_pads=counts_pads)
    elements = math.prod(axis.kernel for axis in axes)
    if (counts == elements).all():
        return _pool("avg", data, axes, count_include_pad=True)
    if not counts_pads and all(axis.dilation == 1 for axis in axes):
        return _pool("avg", data, axes, count_include_pad=False)
    factor = (elements / counts).astype(dtype_of(data))
    return _pool("avg", data, axes, count_include_pad=True) * relay.const(factor)


def _counts(axes: Sequence[Windows], *, counts_pads: bool) -> Any:
    """Return the number of elements that the mean of each window is taken over."""
    counts = np.ones((1,) * len(axes))
    for number, axis in enumerate(axes):
        before, after = axis.pads if counts_pads else (0, 0)
        positions = axis.positions()
        inside = ((positions >= -before) & (positions < axis.size + after)).sum(1)
        counts = counts * inside.reshape([-1 if number == each else 1 for each in range(len(axes))])
    return counts


def lp_pool(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert LpPool: the norm of each window."""
    data, power = inputs[0], attr.get("p", 2)
    axes = windows(infer_shape(data)[2:], attr)
    elements = relay.const(math.prod(axis.kernel for axis in axes), dtype_of(data))
    sums = _pool("avg", _power(relay.abs(data), power), axes, count_include_pad=True) * elements
    return _root(sums, power)


def global_lp_pool(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert GlobalLpPool: the norm of each channel."""
    data, power = inputs[0], attr.get("p", 2)
    axes = list(range(2, len(infer_shape(data))))
    return _root(relay.sum(_power(relay.abs(data), power), axis=axes, keepdims=True), power)


def _power(value: Any, power: int) -> Any:
    if power < 1:
        raise NotImplementedError(f"the attribute p is not supported with the value {power}")
    return value if power == 1 else relay.power(value, relay.const(float(power), dtype_of(value)))


def _root(value: Any, power: int) -> Any:
    return value if power == 1 else relay.power(value, relay.const(1 / power, dtype_of(value)))


def conv_transpose(convert: Converter) -> Converter:
    """Return a converter that gives TVM's pads, and a dilated kernel instead of dilations."""

    def transposed_conv(inputs: Any, attr: Any, params: Any) -> Any:
        sizes, kernel = infer_shape(inputs[0])[2:], infer_shape(inputs[1])[2:]
        rank = len(sizes)
        dilations = attr.get("dilations", [1] * rank)
        if max(dilations) > 1:
            spread = relay.nn.dilate(inputs[1], [1, 1, *dilations])
            kernel = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
            inputs = [inputs[0], spread, *list(inputs)[2:]]
            attr = replaced(attr, dilations=None, kernel_shape=tuple(kernel))
        mode, shape = attr.get("auto_pad", b"NOTSET"), attr.get("output_shape", ())
        if mode == b"VALID":
            attr = replaced(attr, auto_pad=None, pads=None)
        elif mode in _SAME or shape:
            strides = attr.get("strides", [1] * rank)
            outputs = shape[-rank:] if shape else [size * stride for size, stride in zip(sizes, strides, strict=True)]
            pads = _transposed_conv_pads(sizes, kernel, outputs, attr)
            attr = replaced(attr, auto_pad=None, output_shape=None, pads=pads, strides=tuple(strides))
        return convert(inputs, attr, params)

    return transposed_conv


def _transposed_conv_pads(sizes: Sequence[int], kernel: Sequence[int], outputs: Sequence[int], attr: Any) -> list[int]:
    """Return the pads that give an output this size (ONNX's documentation of ConvTranspose)."""
    ones = [1] * len(sizes)
    strides, extras = attr.get("strides", ones), attr.get("output_padding", [0] * len(sizes))
    columns = zip(sizes, kernel, strides, extras, outputs, strict=True)
    totals = [stride * (size - 1) + extra + span - output for size, span, stride, extra, output in columns]
    if min(totals) < 0:
        raise NotImplementedError("an output larger than without padding is not supported; give it output_padding")
    smaller = [total // 2 for total in totals]
    larger = [total - total // 2 for total in totals]
    return smaller + larger if attr.get("auto_pad", b"NOTSET") == b"SAME_UPPER" else larger + smaller


def grid_sample(convert: Converter) -> Converter:
    """Return a converter that takes the names of modes of all operator sets."""
    names = {b"linear": b"bilinear", b"cubic": b"bicubic"}

    def sample(inputs: Any, attr: Any, params: Any) -> Any:
        mode = attr.get("mode", b"bilinear")
        rank = len(infer_shape(inputs[0]))
        if rank != 4:
            raise NotImplementedError(f"an image of rank {rank} is not supported, only one of rank 4")
        mode, border = names.get(mode, mode), attr.get("padding_mode", b"zeros")
        if mode not in (b"bilinear", b"nearest", b"bicubic") or border not in (b"zeros", b"border", b"reflection"):
            raise NotImplementedError(f"{mode.decode()} with {border.decode()} around the image is not supported")
        return convert(inputs, replaced(attr, mode=mode), params)

    return sample


def space_to_depth(convert: Converter) -> Converter:
    """Return a converter that takes both orders of the new channels."""

    def spread(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("mode", b"DCR") != b"CRD":
            return convert(inputs, attr, params)
        block = int(attr["blocksize"])
        batch, channels, rows, columns = infer_shape(inputs[0])
        parts = relay.reshape(inputs[0], (batch, channels, rows // block, block, columns // block, block))
        return relay.reshape(
            relay.transpose(parts, [0, 1, 3, 5, 2, 4]),
            (batch, channels * block * block, rows // block, columns // block),
        )

    return spread
