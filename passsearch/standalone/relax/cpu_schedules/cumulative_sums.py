"""Cumulative sums along an axis that is not the last: sums of neighbouring columns in vectors, which threads share.

TVM goes down one column after the other, so that every number is in another line of the cache than the one before. The
order of additions is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812 - TVM's scripts have this name

from .columns import WIDTHS, axes_around, column_width, indices_of
from .cpu_pass import FUSES_WITH_NOTHING, SCHEDULED
from .sizes import MIN_PARALLEL_ELEMENTS, MOST_ELEMENTS, part_count


def add_up_columns(builder: Any, call: Any) -> Any | None:
    """Return what stands for a ``cumsum`` along an axis before the last; ``None`` for another one."""
    data = call.args[0]
    shape = data.ty.shape
    sizes = list(shape.values) if isinstance(shape, relax.ShapeExpr) else []
    if call.attrs.axis is None or not all(isinstance(size, tirx.IntImm) for size in sizes):
        return None
    axis, known = int(call.attrs.axis) % max(len(sizes), 1), [int(size) for size in sizes]
    dtypes = str(data.ty.dtype), str(call.ty.dtype)
    if not math.prod(known):
        # TVM's loops would write a first row.
        return _call(builder, _nothing(known, dtypes), call)
    is_left = math.prod(known) > MOST_ELEMENTS or not {"bool", "bfloat16"}.isdisjoint(dtypes)
    if is_left or math.prod(known[axis + 1 :]) < WIDTHS[-1]:
        return None
    return _call(builder, _loops(known, axis, dtypes, is_exclusive=bool(call.attrs.exclusive)), call)


def _call(builder: Any, loops: Any, call: Any) -> Any:
    """Return a call of a function in place of that of the operator."""
    return relax.call_tir(builder.add_func(loops, "cumsum"), [call.args[0]], call.ty)


def _nothing(shape: Sequence[int], dtypes: tuple[str, str]) -> Any:
    """Return a function for operands without elements."""

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def cumulative_sums(x: T.handle, y: T.handle) -> None:
        T.func_attr({SCHEDULED: True, "op_pattern": FUSES_WITH_NOTHING, "tirx.noalias": True})
        T.match_buffer(x, shape, dtypes[0])
        T.match_buffer(y, shape, dtypes[1])
        with T.sblock("root"):
            T.evaluate(0)

    return cumulative_sums


def _loops(  # noqa: C901 - nested loops
    shape: Sequence[int], axis: int, dtypes: tuple[str, str], *, is_exclusive: bool
) -> Any:
    """Return a function that adds up along an axis.

    Args:
        shape: Sizes of the axes.
        axis: The axis.
        dtypes: Types of the operand and of the result.
        is_exclusive: Leave out a number from its own sum.
    """
    images, steps, columns = axes_around(shape, axis)
    width = column_width(columns)
    parts = part_count(columns, width)
    shift = int(is_exclusive)
    kind = T.parallel if math.prod(shape) >= MIN_PARALLEL_ELEMENTS else T.serial

    def at(part: Any, step: Any, lane: Any) -> list[Any]:
        """Return the indices of an element; the last columns begin earlier where they would not fit."""
        column = T.min(part % parts * width, columns - width) + lane
        return indices_of(shape, axis, part // parts, [step], column)

    def number(data: Any, part: Any, step: Any, lane: Any) -> Any:
        return tirx.BufferLoad(data, at(part, step, lane)).astype(dtypes[1])

    def first(data: Any, part: Any, lane: Any) -> Any:
        return tirx.const(0, dtypes[1]) if is_exclusive else number(data, part, 0, lane)

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def cumulative_sums(x: T.handle, y: T.handle) -> None:
        T.func_attr({SCHEDULED: True, "op_pattern": FUSES_WITH_NOTHING, "tirx.noalias": True})
        data = T.match_buffer(x, shape, dtypes[0])
        sums = T.match_buffer(y, shape, dtypes[1])
        with T.sblock("root"):
            for part in kind(images * parts):
                own = T.alloc_buffer((width,), dtypes[1])
                for lane in T.vectorized(width):
                    own[lane] = first(data, part, lane)
                for lane in T.vectorized(width):
                    T.buffer_store(sums, own[lane], at(part, 0, lane))
                for step in T.serial(steps - 1):
                    for lane in T.vectorized(width):
                        own[lane] = own[lane] + number(data, part, step + 1 - shift, lane)
                    for lane in T.vectorized(width):
                        T.buffer_store(sums, own[lane], at(part, step + 1, lane))

    return cumulative_sums
