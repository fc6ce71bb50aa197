"""The largest or smallest numbers of each row without sorting the row.

A row of ``n`` numbers is read as a table of about ``sqrt(n)`` columns. One pass over it, in vectors, keeps the best
number of each column. The best number of all is then one of these, and only its column is searched again for the next.
So ``k`` numbers take ``n + 2 k sqrt(n)`` steps, where TVM sorts the whole row.

Numbers are compared as integers with the same order (``_key``). NaN is the largest number, as in PyTorch; of equal
numbers the first comes first, as in ONNX.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import relax, tirx
from tvm.script import tirx as T  # noqa: N812 - TVM's scripts have this name

from .cpu_pass import FUSES_WITH_NOTHING, SCHEDULED
from .sizes import MOST_ELEMENTS

LANES = 16
"""Columns that one loop keeps in registers."""

LEAST_NUMBERS = 256
"""Numbers in a row from which its best are selected; TVM sorts shorter rows."""

LOWEST, NAN = -(1 << 31), (1 << 31) - 2
"""The key below that of every number, and the key of NaN."""


def select_top_k(builder: Any, call: Any) -> Any | None:
    """Return what stands for a ``topk`` of few float32 numbers along the last axis; ``None`` for another one."""
    sizes, count = _sizes(call.args[0]), int(call.attrs.k)
    rank = len(sizes)
    if not rank or int(call.attrs.axis) % rank != rank - 1 or not _pays(sizes[-1], count):
        return None
    rows, places = math.prod(sizes[:-1]), str(call.attrs.dtype)
    loops = _loops(rows, sizes[-1], count, places, is_largest=bool(call.attrs.largest))
    data = builder.emit(relax.op.reshape(call.args[0], [rows, sizes[-1]]))
    types = [relax.TensorType([rows, count], dtype) for dtype in ("float32", places)]
    found = builder.emit(relax.call_tir(builder.add_func(loops, "topk"), [data], types))
    shape = [*sizes[:-1], count]
    values, indices = (
        builder.emit(relax.op.reshape(builder.emit(relax.TupleGetItem(found, at)), shape)) for at in (0, 1)
    )
    return {"both": relax.Tuple([values, indices]), "values": values, "indices": indices}[call.attrs.ret_type]


def _sizes(data: Any) -> list[int]:
    """Return the sizes of a float32 tensor; none of another or a too large tensor, or where one is open."""
    shape = data.ty.shape
    sizes = shape.values if isinstance(shape, relax.ShapeExpr) else []
    known = str(data.ty.dtype) == "float32" and all(isinstance(size, tirx.IntImm) for size in sizes)
    found = [int(size) for size in sizes] if known else []
    return found if math.prod(found) <= MOST_ELEMENTS else []


def _columns(numbers: int) -> int:
    """Return the number of columns, a multiple of the lanes."""
    return max(1, round(math.sqrt(numbers) / LANES)) * LANES


def _pays(numbers: int, count: int) -> bool:
    return numbers >= LEAST_NUMBERS and 1 <= count <= _columns(numbers)


def _key(number: Any, *, is_largest: bool) -> Any:
    """Return an integer by which numbers have the same order; -0 and 0 are equal."""
    bits = tirx.reinterpret("int32", number)
    # Of negative numbers all bits but the sign are turned, so that the largest magnitude is the smallest integer.
    ordered = bits ^ ((bits >> tirx.const(31, "int32")) & tirx.const((1 << 31) - 1, "int32"))
    ordered = tirx.Select(number == tirx.const(0.0, "float32"), tirx.const(0, "int32"), ordered)
    ordered = tirx.Select(tirx.isnan(number), tirx.const(NAN, "int32"), ordered)
    return ordered if is_largest else tirx.bitwise_not(ordered)


def _loops(rows: int, numbers: int, count: int, places: str, *, is_largest: bool) -> Any:  # noqa: C901 - nested loops
    """Return a function of ``[rows, numbers]`` that writes values and places, both ``[rows, count]``."""
    columns = _columns(numbers)
    lines, rest = divmod(numbers, columns)

    def key(number: Any) -> Any:
        return _key(number, is_largest=is_largest)

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def top_k(x: T.handle, y: T.handle, z: T.handle) -> None:  # noqa: C901
        T.func_attr({SCHEDULED: True, "op_pattern": FUSES_WITH_NOTHING, "tirx.noalias": True})
        data = T.match_buffer(x, (rows, numbers), "float32")
        values = T.match_buffer(y, (rows, count), "float32")
        indices = T.match_buffer(z, (rows, count), places)
        with T.sblock("root"):
            for row in T.parallel(rows):
                # The last line has no number in its last columns, and one line more costs little.
                keys = T.alloc_buffer((lines + 1, columns), "int32")
                best = T.alloc_buffer((columns,), "int32")
                first = T.alloc_buffer((columns,), "int32")
                top = T.alloc_buffer((1,), "int32")
                place = T.alloc_buffer((1,), "int32")
                for line, block in T.grid(lines, columns // LANES):
                    for lane in T.vectorized(LANES):
                        keys[line, block * LANES + lane] = key(data[row, line * columns + block * LANES + lane])
                for column in T.serial(columns):
                    keys[lines, column] = LOWEST
                for column in T.serial(rest):
                    keys[lines, column] = key(data[row, lines * columns + column])
                for block in T.serial(columns // LANES):
                    for lane in T.vectorized(LANES):
                        best[block * LANES + lane] = LOWEST
                        first[block * LANES + lane] = 0
                    for line in T.serial(lines + 1):
                        for lane in T.vectorized(LANES):
                            first[block * LANES + lane] = T.Select(
                                keys[line, block * LANES + lane] > best[block * LANES + lane],
                                line,
                                first[block * LANES + lane],
                            )
                            best[block * LANES + lane] = T.max(
                                best[block * LANES + lane], keys[line, block * LANES + lane]
                            )
                for number in T.serial(count):
                    top[0] = LOWEST
                    place[0] = 0
                    for column in T.serial(columns):
                        if best[column] > top[0] or (
                            best[column] == top[0] and first[column] * columns + column < place[0]
                        ):
                            top[0] = best[column]
                            place[0] = first[column] * columns + column
                    values[row, number] = data[row, place[0]]
                    indices[row, number] = T.Cast(places, place[0])
                    # The column's next number is smaller, or as large and in a later line.
                    best[place[0] % columns] = LOWEST
                    for line in T.serial(lines + 1):
                        if keys[line, place[0] % columns] > best[place[0] % columns] and (
                            keys[line, place[0] % columns] < top[0]
                            or (keys[line, place[0] % columns] == top[0] and line > place[0] // columns)
                        ):
                            best[place[0] % columns] = keys[line, place[0] % columns]
                            first[place[0] % columns] = line

    return top_k
