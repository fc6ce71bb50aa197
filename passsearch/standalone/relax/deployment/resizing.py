"""Resizes of images on CPUs whose places and weights are tables.

TVM computes the place and the weights of each element in floating point, in the innermost loop. Here they are computed
once, in the same arithmetic of 32 bits but without fused multiply-adds, when the network is lowered. So a place halfway
between two elements is rounded as ONNX defines it. TVM also rounds down whatever is asked for where it divides places
by a whole ratio.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, tirx

OPERATOR, NAME = "relax.image.resize2d", "resize2d"
ATTRIBUTE, LEVEL = "FLegalize", 11
"""Attribute of operators that ``LegalizeOps`` reads; TVM's own values have level 10."""

LAYOUTS = {"NCHW": 2, "NHWC": 1}
"""First of the two axes of an image, by layout."""

INDEX = "int32"
"""Type of the places in tables."""

SMALL = np.float32(1e-5)
"""What TVM adds to a place before it is rounded to the nearest lower one."""

ROUNDINGS: dict[str, Callable[[Any], Any]] = {
    "floor": lambda places: np.floor(places + SMALL),
    "ceil": lambda places: np.ceil(places - SMALL),
    "round": np.rint,
    "round_prefer_floor": lambda places: np.ceil(places - np.float32(0.5)),
    "round_prefer_ceil": lambda places: np.floor(places + np.float32(0.5)),
}


@functools.cache
def replace_resizes() -> None:
    """Let ``LegalizeOps``, in TVM's own pipelines too, resize images by tables on a CPU from now on."""
    original = tvm.ir.Op.get(OPERATOR).get_attr(ATTRIBUTE)
    assert original is not None, f"{OPERATOR} is not lowered by LegalizeOps"

    def legalize(builder: Any, call: Any) -> Any:
        target = tvm.target.Target.current()
        result = resize_by_tables(builder, call) if target is not None and "cpu" in target.keys else None
        return original(builder, call) if result is None else result

    tvm.ir.register_op_attr(OPERATOR, ATTRIBUTE, legalize, level=LEVEL)


def resize_by_tables(builder: Any, call: Any) -> Any:
    """Return the call of a function that resizes images by tables; ``None`` for a form that it does not know."""
    attributes, sizes = call.attrs, _known(call.args[0].ty.shape)
    new_sizes, first = _known(call.args[1]), LAYOUTS.get(str(attributes.layout))
    mode, method = str(attributes.coordinate_transformation_mode), str(attributes.method)
    if not sizes or not new_sizes or first is None or str(call.ty.dtype) != str(call.args[0].ty.dtype):
        return None
    old_sizes = sizes[first : first + 2]
    places = [_places(old, new, mode) for old, new in zip(old_sizes, new_sizes, strict=True)]
    if any(each is None for each in places):
        return None
    named = {"shape": [*sizes[:first], *new_sizes, *sizes[first + 2 :]], "first": first, "primfunc_name_hint": NAME}
    if method == "nearest_neighbor":
        rounding = ROUNDINGS[str(attributes.rounding_method) or ("round" if mode == "align_corners" else "floor")]
        nearest = [_inside(rounding(each), size) for each, size in zip(places, old_sizes, strict=True)]
        repeats = [_repeats(each) for each in nearest]
        if all(repeats):
            return builder.call_te(_repeated, call.args[0], repeats=repeats, **named)
        return builder.call_te(_nearest, call.args[0], *map(relax.const, nearest), **named)
    if method != "linear" or str(call.ty.dtype) != "float32":
        return None
    tables = []
    for place, size in zip(places, old_sizes, strict=True):
        lower = np.floor(place)
        tables += [_inside(lower, size), _inside(lower + 1, size), place - lower]
    return builder.call_te(_linear, call.args[0], *map(relax.const, tables), **named)


def _inside(places: Any, size: int) -> Any:
    """Return whole places as indices of an axis; those beyond an end become that end."""
    return np.clip(places.astype(INDEX), 0, size - 1)


def _repeats(table: Any) -> int:
    """Return how many elements in a row read each place, if that is a number for all of them; else 0."""
    count = int(np.count_nonzero(table == 0))
    return count if count and np.array_equal(table, np.arange(len(table)) // count) else 0


def _repeated(data: Any, *, repeats: list[int], shape: list[int], first: int) -> Any:
    def element(*place: Any) -> Any:
        inner = [index // count for index, count in zip(place[first : first + 2], repeats, strict=True)]
        return data(*place[:first], *inner, *place[first + 2 :])

    return te.compute(shape, element, name="resize")


def _nearest(data: Any, lines: Any, columns: Any, *, shape: list[int], first: int) -> Any:
    def element(*place: Any) -> Any:
        line, column = place[first : first + 2]
        return data(*place[:first], lines(line), columns(column), *place[first + 2 :])

    return te.compute(shape, element, name="resize")


def _linear(data: Any, *tables: Any, shape: list[int], first: int) -> Any:
    """Return the elements between four neighbours: along lines first, as TVM does it."""
    above, below, line_weights, left, right, column_weights = tables

    def between(one: Any, other: Any, weight: Any) -> Any:
        return one * (tirx.const(1.0, "float32") - weight) + other * weight

    def element(*place: Any) -> Any:
        before, (line, column), after = place[:first], place[first : first + 2], place[first + 2 :]

        def on_line(row: Any) -> Any:
            one, other = (data(*before, row, each(column), *after) for each in (left, right))
            return between(one, other, column_weights(column))

        return between(on_line(above(line)), on_line(below(line)), line_weights(line))

    return te.compute(shape, element, name="resize")


def _places(size: int, new: int, mode: str) -> Any:
    """Return the place in the source of each element along one axis, as TVM computes it; ``None`` for another mode."""
    one, half = np.float32, np.float32(0.5)
    elements, scale = np.arange(new, dtype="float32"), one(one(size) / one(new))
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and new > 1):
        return (elements + half) * scale - half
    if mode == "align_corners" and new > 1:
        return one(one(size - 1) / one(new - 1)) * elements
    if mode == "asymmetric":
        return scale * elements
    return None


def _known(shape: Any) -> list[int]:
    """Return the sizes of a shape; none where they are open."""
    sizes = list(shape.values) if isinstance(shape, relax.ShapeExpr) else []
    return [int(size) for size in sizes] if all(isinstance(size, tvm.tirx.IntImm) for size in sizes) else []
