"""Converters of ONNX's operators on shapes that TVM's importer of Relay gets wrong, or reads in part.

* ``Compress`` by a constant condition is a selection of fixed size, and may be shorter or longer than the axis.
* ``EyeLike`` with a diagonal below the main one writes outside of the tensor.
* ``OneHot`` may have a depth or indices that are floats.
* ``OptionalHasElement`` makes a constant that TVM does not build.
* ``Range`` between constants is one, of which TVM does not know the size where they are not scalars.
* ``Reshape`` with ``allowzero`` differs only for a size of 0.
* ``Split`` in ``num_outputs`` parts of unequal size has a smaller last part.
* ``TopK`` of the smallest elements cuts a sorted tensor at the largest integer, which some builds of TVM refuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from onnx import helper
from tvm import relay
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.onnx_nodes import Inputs, replaced
from passsearch.dialects.refusal import BY_MASK
from passsearch.dialects.relay.importers.local_inference import dtype_of

Converter: TypeAlias = Callable[[Any, Any, Any], Any]


def compress(convert: Converter) -> Converter:
    """Return a converter that selects by a constant condition."""

    def selected(inputs: Any, attr: Any, params: Any) -> Any:
        data, condition = inputs[0], inputs[1]
        if not isinstance(condition, relay.Constant):
            return convert(inputs, attr, params)
        axis = attr.get("axis")
        if axis is None:
            data, axis = relay.reshape(data, (-1,)), 0
        size = infer_shape(data)[axis]
        (places,) = np.nonzero(condition.data.numpy()[:size])
        return relay.take(data, relay.const(places, "int64"), axis=axis)

    return selected


def optional_has_element(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert OptionalHasElement, whose result is known from the graph."""
    return relay.const(np.array(inputs[0] is not None), "bool")


def top_k(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert TopK of the largest or the smallest elements."""
    data, count = inputs[0], inputs[1]
    number = attr.get("k") if count is None else _number(count)
    if number is None:
        raise NotImplementedError("TopK is supported only with a constant number of elements")
    if dtype_of(data) == "uint64":
        raise NotImplementedError("TopK of uint64 is not supported")
    axis, is_ascending = attr.get("axis", -1), not attr.get("largest", 1)
    return relay.topk(data, number, axis=axis, is_ascend=is_ascending, dtype="int64")


def _number(value: Any) -> int | None:
    return int(value.data.numpy().item()) if isinstance(value, relay.Constant) else None


def eye_like(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert EyeLike, whose result depends on the shape of its input only."""
    rows, columns = infer_shape(inputs[0])
    number = attr.get("dtype")
    dtype = dtype_of(inputs[0]) if number is None else str(helper.tensor_dtype_to_np_dtype(number))
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise NotImplementedError("open sizes are not supported; give the inputs sizes")
    return relay.const(np.eye(rows, columns, attr.get("k", 0)).astype(dtype), dtype)


def one_hot(convert: Converter) -> Converter:
    """Return a converter that takes a depth and indices that are floats."""

    def encoded(inputs: Any, attr: Any, params: Any) -> Any:
        indices, depth, values = inputs[0], inputs[1], inputs[2]
        if not isinstance(depth, relay.Constant):
            raise NotImplementedError("OneHot is supported only with a constant depth")
        if "float" in dtype_of(indices):
            indices = relay.cast(indices, "int64")
        number = relay.const(int(depth.data.numpy().item()), "int64")
        return convert(Inputs([indices, number, values]), replaced(attr, axis=attr.get("axis", -1)), params)

    return encoded


def number_range(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert Range between constants."""
    bounds = [inputs[number] for number in range(3)]
    if not all(isinstance(bound, relay.Constant) for bound in bounds):
        raise NotImplementedError(f"the size of the result depends on values; {BY_MASK}")
    start, end, step = (bound.data.numpy().item() for bound in bounds)
    count = max(math.ceil((end - start) / step), 0)
    return relay.const((start + np.arange(count) * step).astype(dtype_of(bounds[0])))


def reshape(convert: Converter) -> Converter:
    """Return a converter that takes ``allowzero`` where it makes no difference."""

    def reshaped(inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("allowzero", 0):
            sizes = inputs[1].data.numpy() if isinstance(inputs[1], relay.Constant) else None
            if sizes is None or (sizes == 0).any():
                raise NotImplementedError(
                    "the attribute allowzero is supported only with constant sizes that are not 0"
                )
        return convert(inputs, replaced(attr, allowzero=None), params)

    return reshaped


def split(convert: Converter) -> Converter:
    """Return a converter that computes the sizes of parts where they differ."""

    def parts(inputs: Any, attr: Any, params: Any) -> Any:
        count = attr.get("num_outputs", 0)
        axis = attr.get("axis", 0)
        size = infer_shape(inputs[0])[axis]
        if not count or not isinstance(size, int) or size % count == 0:
            if isinstance(inputs[1], relay.Constant) and not inputs[1].data.numpy().all():
                raise NotImplementedError("a part of size 0 is not supported")
            return convert(inputs, replaced(attr, axis=axis), params)
        whole = -(-size // count)
        sizes = [whole] * (count - 1) + [size - whole * (count - 1)]
        return convert(Inputs([inputs[0], relay.const(sizes, "int64")]), replaced(attr, axis=axis), params)

    return parts
