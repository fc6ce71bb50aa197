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

from .cpu_pass import FUSES_WITH_NOTHING, SCHEDULED
from .sizes import MIN_PARALLEL_ELEMENTS, part_count

WIDTHS, MOST_COLUMNS = (32, 16, 8), 1.25
"""Columns that are added up together, which fit into registers, and most columns with those that are added up twice."""


def add_up_columns(builder: Any, call: Any) -> Any | None:
    """Return what stands for a ``cumsum`` along an axis before the last; ``None`` for another one."""
    data, shape = call.args[0], call.args[0].ty.shape
    sizes = list(shape.values) if isinstance(shape, relax.ShapeExpr) else []
    if call.attrs.axis is None or not all(isinstance(size, tirx.IntImm) for size in sizes):
        return None
    axis, known = int(call.attrs.axis) % max(len(sizes), 1), [int(size) for size in sizes]
    dtypes = str(data.ty.dtype), str(call.ty.dtype)
    if not math.prod(known) and dtypes[0] == dtypes[1]:
        return data  # TVM's loops would write a first row
    columns = math.prod(known[axis + 1 :])
    if columns < WIDTHS[-1] or not math.prod(known) or "bool" in dtypes:
        return None
    rows = math.prod(known[:axis]), known[axis], columns
    loops = _loops(known, rows, dtypes, is_exclusive=bool(call.attrs.exclusive))
    return relax.call_tir(builder.add_func(loops, "cumsum"), [data], relax.TensorType(known, dtypes[1]))


def _loops(  # noqa: C901 - nested loops
    shape: Sequence[int], sizes: tuple[int, int, int], dtypes: tuple[str, str], *, is_exclusive: bool
) -> Any:
    """Return a function that adds up along the second of three axes.

    Args:
        shape: Sizes of the axes of the operand and of the result.
        sizes: Those of the three axes that they are seen as.
        dtypes: Types of the operand and of the result.
        is_exclusive: Leave out a number from its own sum.
    """
    images, steps, columns = sizes
    width = _width(columns)
    parts = part_count(columns, width)
    shift = int(is_exclusive)
    kind = T.parallel if math.prod(sizes) >= MIN_PARALLEL_ELEMENTS else T.serial

    def at(part: Any, step: Any, lane: Any) -> list[Any]:
        """Return the indices of an element; the last columns begin earlier where they would not fit."""
        column = T.min(part % parts * width, columns - width) + lane
        return _indices((part // parts * steps + step) * columns + column, shape)

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


def _indices(index: Any, shape: Sequence[int]) -> list[Any]:
    """Return the index of an element, counted through all axes, by axis."""
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return [index // stride % size for stride, size in zip(strides, shape, strict=True)]


def _width(columns: int) -> int:
    """Return the columns that are added up together."""
    most = MOST_COLUMNS * columns
    return next((each for each in WIDTHS if each <= columns and part_count(columns, each) * each <= most), WIDTHS[-1])
