"""Operators that numpy evaluates bit for bit as LLVM's code does."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np
import tvm

Arrays = List[np.ndarray]
Shape = Tuple[int, ...]
Types = Tuple[Tuple[Shape, str], ...]
Result = Union[np.ndarray, Arrays, None]

NUMERIC = frozenset(["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
"""Dtypes of numbers."""

DTYPES = NUMERIC | {"bool"}
"""Dtypes of constants that numpy evaluates."""

Evaluate = Callable[[Arrays, Any, Shape], Result]
"""A function of operands, attributes and result shape (a tuple's: of its first field); None leaves the call to TVM."""


def has_nan(array: np.ndarray) -> bool:
    """Return True if an array of floats contains a NaN."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _arithmetic(function: Callable[..., Any], kinds: str = "fiu") -> Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
        return np.asarray(function(*operands)) if all(x.dtype.kind in kinds for x in operands) else None

    return evaluate


def _comparison(function: Callable[..., Any]) -> Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
        # LLVM's comparisons are ordered: to TVM, NaN is not unequal to NaN either.
        return None if any(map(has_nan, operands)) else np.asarray(function(*operands))

    return evaluate


def _maximum(left: Any, right: Any) -> Any:
    """Return the larger operand, as LLVM's compare and select does."""
    # np.maximum differs: for two zeros, or if one operand is NaN, LLVM's code returns the second operand.
    return np.where(left > right, left, right)


def _minimum(left: Any, right: Any) -> Any:
    return np.where(left < right, left, right)


def _clip(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,) = operands
    if data.dtype.kind != "f":
        return None
    low, high = data.dtype.type(attrs.a_min), data.dtype.type(attrs.a_max)
    return np.asarray(_maximum(_minimum(data, high), low))


def _rsqrt(data: Any) -> Any:
    return data.dtype.type(1) / np.sqrt(data)


def _cast(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,), dtype = operands, str(attrs.dtype)
    # TVM's conversion from float64 to float16 gives garbage.
    if dtype not in DTYPES or has_nan(data) or (data.dtype.name, dtype) == ("float64", "float16"):
        return None
    if data.dtype.kind == "f" and dtype in NUMERIC and np.dtype(dtype).kind in "iu":
        bounds = np.iinfo(dtype)
        # LLVM leaves a conversion out of range undefined. As a float, the upper bound of int64 rounds up to 2**63.
        if not bool(np.all((data > bounds.min) & (data.astype("float64") < float(bounds.max)))):
            return None
    return data.astype(dtype)


def _reshape(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
    return operands[0].reshape(shape)


def _broadcast_to(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
    return np.broadcast_to(operands[0], shape)


def _filled(value: Callable[[Arrays], Any]) -> Evaluate:
    def evaluate(operands: Arrays, _attrs: Any, shape: Shape) -> Result:
        return np.full(shape, value(operands), operands[0].dtype)

    return evaluate


def _transpose(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.transpose(operands[0], _integers(attrs.axes) if attrs.axes else None)


def _layout_transform(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    source, target = _parse_layout(str(attrs.src_layout)), _parse_layout(str(attrs.dst_layout))
    if source is None or target is None:
        return None
    data, order = _unblock(operands[0], source)
    factors = dict((axis.upper(), factor) for axis, factor in target if axis.islower())
    if sorted(order) != sorted(axis for axis, _ in target if axis.isupper()):
        return None
    split: List[Tuple[str, int]] = []
    for axis, extent in zip(order, data.shape):
        factor = factors.get(axis, 1)
        if extent % factor:
            return None
        split += [(axis, extent // factor)] + ([(axis.lower(), factor)] if axis in factors else [])
    names = [axis for axis, _ in split]
    return data.reshape([extent for _, extent in split]).transpose([names.index(axis) for axis, _ in target])  # type: ignore[no-any-return]


def _parse_layout(layout: str) -> Optional[List[Tuple[str, int]]]:
    """Return the axes of a layout, None if one is blocked twice.

    ``NCHW16c`` gives ``[("N", 0), ("C", 0), ("H", 0), ("W", 0), ("c", 16)]``.
    """
    if not re.fullmatch(r"([A-Z]|\d+[a-z])+", layout):
        return None
    axes = [(axis, int(factor or 0)) for factor, axis in re.findall(r"(\d*)([A-Za-z])", layout)]
    names = {axis for axis, _ in axes}
    is_complete = all(axis.upper() in names for axis in names)
    return axes if is_complete and len(names) == len(axes) else None


def _unblock(data: np.ndarray, layout: List[Tuple[str, int]]) -> Tuple[np.ndarray, List[str]]:
    """Return the array with every blocked axis merged into its outer axis, and the order of its axes."""
    names = [axis for axis, _ in layout]
    order = [axis for axis in names if axis.isupper()]
    places = [names.index(part) for axis in order for part in (axis, axis.lower()) if part in names]
    extents = dict(zip(names, data.shape))
    merged = [extents[axis] * extents.get(axis.lower(), 1) for axis in order]
    return data.transpose(places).reshape(merged), order


def _concatenate(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.concatenate(operands, axis=int(attrs.axis))


def _stack(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.stack(operands, axis=int(attrs.axis))


def _split(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    (data,), sections = operands, attrs.indices_or_sections
    parts = int(sections) if isinstance(sections, (int, tvm.tir.IntImm)) else _integers(sections)
    return list(np.split(data, parts, axis=int(attrs.axis)))


def _strided_slice(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    if len(operands) != 1 or attrs.slice_mode != "end" or attrs.begin is None or attrs.end is None:
        return None
    begin, end = _integers(attrs.begin), _integers(attrs.end)
    strides = _integers(attrs.strides or []) or [1]
    strides += [strides[-1] if len(strides) == 1 else 1] * (len(begin) - len(strides))
    axes = range(len(begin)) if attrs.axes is None else _integers(attrs.axes)
    if len(begin) != len(end) or min(strides) < 1:
        return None
    index = [slice(None)] * operands[0].ndim
    for axis, first, last, stride in zip(axes, begin, end, strides):
        index[axis] = slice(first, last, stride)
    return operands[0][tuple(index)]


def _take(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    data, indices = operands
    axis = None if attrs.axis is None else int(attrs.axis)
    extent = data.size if axis is None else data.shape[axis]
    # Out of range, TVM's result depends on the mode; numpy would raise.
    in_range = indices.dtype.kind in "iu" and indices.size and indices.min() >= 0 and indices.max() < extent
    return np.asarray(np.take(data, indices, axis=axis)) if in_range and int(attrs.batch_dims) == 0 else None


def _where(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
    condition, left, right = operands
    return np.where(condition, left, right) if condition.dtype.kind == "b" else None


def _arange(operands: Arrays, _attrs: Any, _shape: Shape) -> Result:
    integers = all(x.dtype.kind == "i" and x.ndim == 0 for x in operands)
    return np.arange(*map(int, operands), dtype=operands[0].dtype) if integers and operands[2] else None


def _tile(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.tile(operands[0], _integers(attrs.reps))


def _repeat(operands: Arrays, attrs: Any, _shape: Shape) -> Result:
    return np.repeat(operands[0], int(attrs.repeats), axis=int(attrs.axis))


def _integers(values: Any) -> List[int]:
    return [int(value) for value in values]


EVALUATORS: Dict[str, Evaluate] = {
    "add": _arithmetic(np.add),
    "subtract": _arithmetic(np.subtract),
    "multiply": _arithmetic(np.multiply),
    # np.divide of integers gives floats, so integers are left to TVM.
    "divide": _arithmetic(np.divide, kinds="f"),
    "maximum": _arithmetic(_maximum),
    "minimum": _arithmetic(_minimum),
    "negative": _arithmetic(lambda data: data.dtype.type(0) - data),  # TVM computes -x as 0 - x: negative(0.0) is 0.0
    "abs": _arithmetic(np.abs),
    "sqrt": _arithmetic(np.sqrt, kinds="f"),
    "rsqrt": _arithmetic(_rsqrt, kinds="f"),
    "clip": _clip,
    "cast": _cast,
    "copy": _arithmetic(np.array, kinds="fiub"),
    "equal": _comparison(np.equal),
    "not_equal": _comparison(np.not_equal),
    "less": _comparison(np.less),
    "less_equal": _comparison(np.less_equal),
    "greater": _comparison(np.greater),
    "greater_equal": _comparison(np.greater_equal),
    "logical_and": _arithmetic(np.logical_and, kinds="b"),
    "logical_or": _arithmetic(np.logical_or, kinds="b"),
    "logical_not": _arithmetic(np.logical_not, kinds="b"),
    "where": _where,
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "expand_dims": _reshape,
    "squeeze": _reshape,
    "nn.batch_flatten": _reshape,
    "broadcast_to": _broadcast_to,
    "zeros_like": _filled(lambda operands: 0),
    "ones_like": _filled(lambda operands: 1),
    "full": _filled(lambda operands: operands[0]),
    "full_like": _filled(lambda operands: operands[1]),
    "transpose": _transpose,
    "layout_transform": _layout_transform,
    "concatenate": _concatenate,
    "stack": _stack,
    "split": _split,
    "strided_slice": _strided_slice,
    "take": _take,
    "arange": _arange,
    "tile": _tile,
    "repeat": _repeat,
}

EVALUATED_OPERATORS = frozenset([*EVALUATORS, "shape_of", "vm.shape_of", "ndarray_size"])
"""Operators that numpy evaluates; TVM evaluates the others."""
