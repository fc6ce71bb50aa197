"""Places of the largest or smallest numbers along an axis, in vectors: of neighbouring columns, or of parts of a row.

Of equal numbers the first counts. After NaN, TVM's loops begin again with the next number; a row that has one is
computed as they do it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlock
from tvm.script import tirx as T  # noqa: N812 - TVM's scripts have this name

from .columns import WIDTHS, axes_around, column_width, indices_of
from .sizes import MIN_PARALLEL_ELEMENTS, MOST_ELEMENTS, part_count

PLACES = "passsearch.places"
"""Attribute of a function that computes places, with the name of its operator (``legalization.py``)."""

LANES, LEAST_NUMBERS = 16, 32
"""Numbers of a row that are compared side by side, and the shortest row for which that pays."""


def find_places(function: Any) -> Any | None:
    """Return loops in vectors for a function that computes places in a float32 tensor; ``None`` for another one."""
    kind = function.attrs.get(PLACES) if function.attrs else None
    shapes = [getattr(param, "shape", [None]) for param in function.params] if kind else []
    axis = _reduced_axis(function) if len(shapes) == 2 else None
    if axis is None or not all(isinstance(size, tirx.IntImm) for shape in shapes for size in shape):
        return None
    data, result = function.params
    shape, places = ([int(size) for size in each.shape] for each in (data, result))
    images, steps, columns = axes_around(shape, axis)
    is_known = str(data.dtype) == "float32" and math.prod(places) == images * columns
    is_long = columns >= WIDTHS[-1] or (columns == 1 and steps >= LEAST_NUMBERS)
    if not is_known or not is_long or not 0 < math.prod(shape) <= MOST_ELEMENTS:
        return None
    write = _of_rows if columns == 1 else _of_columns
    loops = write(shape, places, axis, str(result.dtype), is_largest=kind == "argmax")
    return loops.with_attrs(dict(function.attrs))


def _reduced_axis(function: Any) -> int | None:
    """Return the axis along which places are computed; ``None`` if there are several."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, (SBlock, blocks.append))
    for block in blocks:
        reduced = [axis for axis in block.iter_vars if axis.iter_type == tirx.IterVar.CommReduce]
        if len(reduced) == 1 and len(block.reads) == 1:
            indices = [bounds.min for bounds in block.reads[0].region]
            return next((place for place, index in enumerate(indices) if index.same_as(reduced[0].var)), None)
    return None


def _is_kept(best: Any, number: Any, *, is_largest: bool) -> Any:
    """Return True if an earlier number keeps its place, which no comparison with NaN is."""
    return best >= number if is_largest else best <= number


def _extreme(first: Any, second: Any, *, is_largest: bool) -> Any:
    return T.max(first, second) if is_largest else T.min(first, second)


def _of_columns(shape: Sequence[int], places: Sequence[int], axis: int, dtype: str, *, is_largest: bool) -> Any:
    """Return loops down neighbouring columns."""
    images, steps, columns = axes_around(shape, axis)
    width = column_width(columns)
    parts = part_count(columns, width)
    only = [0] if len(places) == len(shape) else []
    kind = T.parallel if math.prod(shape) >= MIN_PARALLEL_ELEMENTS else T.serial

    def at(part: Any, steps: Sequence[Any], lane: Any) -> list[Any]:
        """Return the indices of an element; the last columns begin earlier where they would not fit."""
        column = T.min(part % parts * width, columns - width) + lane
        return indices_of(shape, axis, part // parts, steps, column)

    def number(data: Any, part: Any, step: Any, lane: Any) -> Any:
        return tirx.BufferLoad(data, at(part, [step], lane))

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def of_columns(x: T.handle, y: T.handle) -> None:
        data = T.match_buffer(x, shape, "float32")
        result = T.match_buffer(y, places, dtype)
        with T.sblock("root"):
            for part in kind(images * parts):
                best = T.alloc_buffer((width,), "float32")
                place = T.alloc_buffer((width,), "int32")
                for lane in T.vectorized(width):
                    best[lane] = number(data, part, 0, lane)
                    place[lane] = 0
                for step in T.serial(steps - 1):
                    for lane in T.vectorized(width):
                        place[lane] = T.Select(
                            _is_kept(best[lane], number(data, part, step + 1, lane), is_largest=is_largest),
                            place[lane],
                            T.Cast("int32", step + 1),
                        )
                        best[lane] = _extreme(best[lane], number(data, part, step + 1, lane), is_largest=is_largest)
                for lane in T.vectorized(width):
                    T.buffer_store(result, T.Cast(dtype, place[lane]), at(part, only, lane))

    return of_columns


def _is_before_first(best: Any, place: Any, lane: Any, *, is_largest: bool) -> Any:
    """Return True if a lane has a better number than the first one, or an equal one at an earlier place."""
    is_better = best[lane] > best[0] if is_largest else best[lane] < best[0]
    return T.Or(is_better, T.And(best[lane] == best[0], place[lane] < place[0]))


def _of_rows(  # noqa: C901 - nested loops
    shape: Sequence[int], places: Sequence[int], axis: int, dtype: str, *, is_largest: bool
) -> Any:
    """Return loops along rows in vectors, of which the last may overlap with the one before."""
    rows, numbers, _ = axes_around(shape, axis)
    only = [0] if len(places) == len(shape) else []
    kind = T.parallel if rows * numbers >= MIN_PARALLEL_ELEMENTS else T.serial

    def number(data: Any, row: Any, place: Any) -> Any:
        return tirx.BufferLoad(data, indices_of(shape, axis, row, [place], 0))

    def begin(vector: Any) -> Any:
        return T.min(vector * LANES, numbers - LANES)

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def of_rows(x: T.handle, y: T.handle) -> None:
        data = T.match_buffer(x, shape, "float32")
        result = T.match_buffer(y, places, dtype)
        with T.sblock("root"):
            for row in kind(rows):
                best = T.alloc_buffer((LANES,), "float32")
                place = T.alloc_buffer((LANES,), "int32")
                undefined = T.alloc_buffer((LANES,), "int32")
                for lane in T.vectorized(LANES):
                    best[lane] = number(data, row, lane)
                    place[lane] = T.Cast("int32", lane)
                    undefined[lane] = 0
                for vector in T.serial(part_count(numbers, LANES)):
                    for lane in T.vectorized(LANES):
                        place[lane] = T.Select(
                            _is_kept(best[lane], number(data, row, begin(vector) + lane), is_largest=is_largest),
                            place[lane],
                            T.Cast("int32", begin(vector) + lane),
                        )
                        best[lane] = _extreme(
                            best[lane], number(data, row, begin(vector) + lane), is_largest=is_largest
                        )
                        undefined[lane] = T.Select(T.isnan(number(data, row, begin(vector) + lane)), 1, undefined[lane])
                for lane in T.serial(LANES - 1):
                    # No branch, because the processor could not foresee which lane has the best number.
                    place[0] = T.Select(
                        _is_before_first(best, place, lane + 1, is_largest=is_largest), place[lane + 1], place[0]
                    )
                    best[0] = _extreme(best[0], best[lane + 1], is_largest=is_largest)
                    undefined[0] = T.max(undefined[0], undefined[lane + 1])
                if undefined[0] > 0:
                    best[0] = number(data, row, 0)
                    place[0] = 0
                    for step in T.serial(numbers - 1):
                        place[0] = T.Select(
                            _is_kept(best[0], number(data, row, step + 1), is_largest=is_largest),
                            place[0],
                            T.Cast("int32", step + 1),
                        )
                        best[0] = _extreme(best[0], number(data, row, step + 1), is_largest=is_largest)
                T.buffer_store(result, T.Cast(dtype, place[0]), indices_of(shape, axis, row, only, 0))

    return of_rows
