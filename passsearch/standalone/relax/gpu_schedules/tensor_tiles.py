"""Tiles of a product of matrices for tensor cores: what the warps of a block compute together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

from tvm.s_tir.dlight.gpu.matmul import auto_inline_consumer_chain, auto_inline_producers

from .instructions import (
    EDGE,
    VECTOR_BYTES,
    WARP,
    bytes_of,
    clear,
    load,
    multiply,
    place_factor,
    place_sum,
    steps_of,
    sums_of,
)
from .sums import sum_in_threads
from .tiles import MULTIPROCESSORS
from .vectors import count_neighbours

LEAST_COPY_BYTES = 4
"""The least that ``cp.async`` copies."""

MOST_WARPS = 32
"""Warps that a block can have."""

MOST_SHARED_BYTES = 49_152
"""Shared memory of fixed size that a block can have on every device."""

PRODUCTS, SHARED_BYTES, LOADED_BYTES = 1024, 128, 47
"""Products of 16 bits, bytes from shared memory, and bytes from the second-level cache, a clock and multiprocessor.

Those of an A100 (NVIDIA A100 Tensor Core GPU Architecture, 2020), which multiplies half as many factors in TF32 and
twice as many in 8 bits; the last is 5,120 bytes for 108 multiprocessors.
"""

LAUNCH = 3000
"""Clocks from one kernel of a CUDA graph to the next: two microseconds, an assumption."""


@dataclass(frozen=True)
class TensorTile:
    """A way to compute C[i, j], the sums of A[i, k] B[j, k], in which warps multiply tiles of 16 by 16 values.

    The threads of a block load what the next steps of the sum need into shared memory, 16 bytes at a time where these
    are neighbours in memory. Rows of shared memory are an odd multiple of 16 bytes apart, so that the eight rows that
    ``ldmatrix`` reads at once lie in different banks. Those of TF32 whose neighbours are no steps of the sum are an odd
    multiple of 32 bytes apart, because threads read single values of four of them. From sm_80 on, the next steps are
    copied while the present ones are multiplied. Sums are float32 and stay in registers; what comes after them is
    computed before they are written. Sums of factors in 8 bits are int32.

    Attributes:
        row_warps: Warps of a block along i.
        column_warps: Warps of a block along j.
        rows: Results of a warp along i, a multiple of 16.
        columns: Results of a warp along j, a multiple of 16.
        steps: Terms of the sum that are in shared memory together, a multiple of 16, or of 32 in 8 bits.
        parts: Number of parts of the sum, which different blocks compute.
    """

    row_warps: int
    column_warps: int
    rows: int
    columns: int
    steps: int
    parts: int

    def __str__(self) -> str:
        """Return the tile as an argument of ``ScheduleGPU``."""
        return "x".join(map(str, astuple(self))) + "t"

    def shared_bytes(self, item_bytes: int) -> int:
        """Return the shared memory of a block for one round of steps, at most: either way around.

        Args:
            item_bytes: Bytes of a factor.
        """
        sizes = (self.row_warps * self.rows, self.column_warps * self.columns)
        padding = max(VECTOR_BYTES // item_bytes, 8)
        return sum(item_bytes * max(size * (self.steps + padding), (size + padding) * self.steps) for size in sizes)

    def apply(
        self,
        schedule: Any,
        main: Any,
        inner: list[bool],
        *,
        dtypes: tuple[str, str],
        steps: int,
        has_copies: bool,
        most: tuple[int, int],
    ) -> Any:
        """Return the schedule, or ``None`` for a function of several results whose sums have parts.

        Args:
            schedule: The schedule so far.
            main: Block that multiplies two matrices and adds in float32 or int32.
            inner: For A and B, True if values that follow each other along k are neighbours in memory.
            dtypes: Types of A and B.
            steps: Terms of the sum that an instruction of the device adds at once.
            has_copies: True if the device copies into shared memory while it computes (``cp.async``).
            most: Values of A and B that a thread loads at once at most.
        """
        tile = (self.row_warps * self.rows, self.column_warps * self.columns, self.steps * self.parts)
        schedule.pad_einsum(main, [1, *tile])
        if self.parts > 1:
            *_, terms = schedule.get_loops(main)
            part, _ = schedule.split(terms, [self.parts, None])
            total, main = main, schedule.rfactor(part, 0)
        batch, i, j, *parts, k = schedule.get_loops(main)
        row_block, row_warp, row, first = schedule.split(i, [None, self.row_warps, self.rows // EDGE, EDGE])
        column_block, column_warp, column, second = schedule.split(
            j, [None, self.column_warps, self.columns // EDGE, EDGE]
        )
        edge = steps_of(dtypes[0])
        outer, middle, step = schedule.split(k, [None, self.steps // edge, edge])
        order = (row_block, column_block, row_warp, column_warp, outer, middle, row, column, first, second, step)
        schedule.reorder(*parts, batch, *order)
        # Images have many rows, and CUDA has at most 65,535 blocks along y.
        schedule.bind(schedule.fuse(*parts, batch, row_block), "blockIdx.x")
        schedule.bind(column_block, "blockIdx.y")
        schedule.bind(row_warp, "threadIdx.z")
        schedule.bind(column_warp, "threadIdx.y")
        instructions, widths = {}, []
        for place, size in enumerate(tile[:2]):
            form: Any = {"inner": inner[place], "dtype": dtypes[place]}
            widths.append(self._load_shared(schedule, main, place, outer, size=size, most=most[place], **form))
            loop = self._load_registers(schedule, main, place, middle, **form)
            instructions[loop] = load(place, dtypes[place], transposed=not inner[place])
        result = self._write(schedule, main, column_warp)
        rounds = int(schedule.get(outer).extent)
        begin = schedule.decompose_reduction(main, outer)
        item_bytes = bytes_of(dtypes[0])
        can_copy = has_copies and max(widths) * item_bytes >= LEAST_COPY_BYTES
        if can_copy and rounds > 1 and 2 * self.shared_bytes(item_bytes) <= MOST_SHARED_BYTES:
            # Both operands of the next steps are copied while the present ones are multiplied.
            schedule.annotate(outer, "software_pipeline_stage", [0, 0, 1])
            schedule.annotate(outer, "software_pipeline_order", [0, 1, 2])
            schedule.annotate(outer, "software_pipeline_async_stages", [0])
        for loop in (middle, row, column):
            schedule.unroll(loop)
        if self.parts == 1:
            auto_inline_consumer_chain(schedule, result)
        elif not sum_in_threads(schedule, total):
            return None
        instructions[schedule.get_loops(begin)[-2]] = clear(sums_of(dtypes[0]))
        instructions[first] = multiply(*dtypes, steps=steps)
        # The last step: blocks that an instruction replaces are not found any more.
        for loop, name in instructions.items():
            schedule.tensorize(loop, name)
        return schedule

    def _load_shared(
        self, schedule: Any, main: Any, place: int, outer: Any, *, size: int, most: int, inner: bool, dtype: str
    ) -> int:
        """Load an operand into shared memory, as it lies in memory; return how many values a thread loads at once.

        Args:
            schedule: The schedule.
            main: Block that reads the operand.
            place: Place of the operand.
            outer: Loop over parts of the sum.
            size: Number of rows or columns of the tile.
            most: Values that a thread loads at once at most.
            inner: True if terms that follow each other in the sum are neighbours in memory.
            dtype: Type of the operand.
        """
        block = schedule.cache_read(main, place, "shared")
        schedule.compute_at(block, outer, preserve_unit_loops=True)
        auto_inline_producers(schedule, block)
        *_, first, second = schedule.get_loops(block)
        if not inner:
            schedule.transform_layout(block, ("write", 0), lambda batch, value, step: (batch, step, value))
            schedule.reorder(second, first)
            first, second = second, first
        warps = self.row_warps * self.column_warps
        copy = schedule.get(block)
        width = count_neighbours(copy, copy.iter_vars[-1 if inner else -2], most)
        width = math.gcd(width, max(size * self.steps // (warps * WARP), 1))
        loops = schedule.split(schedule.fuse(first, second), [None, self.row_warps, self.column_warps, WARP, width])
        schedule.unroll(loops[0])
        for loop, name in zip(loops[1:4], ("threadIdx.z", "threadIdx.y", "threadIdx.x"), strict=True):
            schedule.bind(loop, name)
        schedule.vectorize(loops[4])
        vector = VECTOR_BYTES // bytes_of(dtype)
        padding = 2 * vector if dtype == "float32" and not inner else vector
        schedule.storage_align(block, 0, axis=1, factor=2 * padding, offset=padding)
        return width

    @staticmethod
    def _load_registers(schedule: Any, main: Any, place: int, middle: Any, *, inner: bool, dtype: str) -> Any:
        """Load an operand from shared memory into the registers of a warp; return the loop over the rows of a tile."""
        block = schedule.cache_read(main, place, "warp")
        schedule.compute_at(block, middle, preserve_unit_loops=True)
        *_, first, second = schedule.get_loops(block)
        edge = steps_of(dtype)
        tiles = _split_tiles(schedule, first, second, (EDGE, edge) if inner else (edge, EDGE))
        where = _in_registers(place_factor(place, dtype), edge, transposed=not inner)
        schedule.transform_layout(block, ("write", 0), where)
        return tiles

    @staticmethod
    def _write(schedule: Any, main: Any, warp: Any) -> Any:
        """Write sums from registers; return the block that does so."""
        result = schedule.cache_write(main, 0, "warp")
        own = schedule.cache_read(result, 0, "warp")
        for block, side in ((main, "write"), (own, "write")):
            schedule.transform_layout(block, (side, 0), _in_registers(place_sum, EDGE))
        for block in (own, result):
            schedule.reverse_compute_at(block, warp, preserve_unit_loops=True)
            *_, first, second = schedule.get_loops(block)
            rows, upper, row = schedule.split(first, [None, 2, 8])
            columns, left, column, pair = schedule.split(second, [None, 2, 4, 2])
            schedule.reorder(rows, columns, row, column, left, upper, pair)
            schedule.bind(schedule.fuse(row, column), "threadIdx.x")
            for loop in (rows, columns, left, upper):
                schedule.unroll(loop)
            (schedule.unroll if block is own else schedule.vectorize)(pair)
        return result


TILES = tuple(
    TensorTile(*warps, *results, 32, 1)
    for warps, results in (
        ((2, 4), (64, 32)),
        ((2, 2), (64, 32)),
        ((1, 4), (64, 32)),
        ((2, 2), (32, 32)),
        ((1, 4), (32, 32)),
        ((2, 2), (32, 16)),
        ((2, 2), (16, 32)),
        ((2, 2), (16, 16)),
        ((1, 4), (16, 16)),
    )
)
"""Tiles of 16 to 128 rows and columns, the larger ones first.

A warp's 64 by 32 sums take 64 registers of each thread, and the next factors 24; with addresses 128, so that two blocks
of 256 threads share the 65,536 registers of a multiprocessor. 64 by 64 take 254. A block of them has 40 KB of shared
memory for two rounds of steps, of the 48 that every device gives a block.
"""

PARTS = (1, 2, 4, 8)
"""Numbers of parts of a sum that are considered."""


def _split_tiles(schedule: Any, first: Any, second: Any, sizes: tuple[int, int]) -> Any:
    """Split two loops into tiles of these sizes; return the loop over the rows of a tile."""
    rows, row = schedule.split(first, [None, sizes[0]])
    columns, column = schedule.split(second, [None, sizes[1]])
    schedule.reorder(rows, columns, row, column)
    schedule.unroll(rows)
    schedule.unroll(columns)
    return row


def _in_registers(
    place: Callable[[Any, Any], tuple[Any, Any]], columns: int, *, transposed: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """Return where values of matrices are in the registers of a warp: tile, thread, and place in its registers.

    Args:
        place: Thread and place of a value of a tile by row and column.
        columns: Columns of a tile, or steps of the sum.
        transposed: True if the matrices have rows as columns.
    """

    def where(*index: Any) -> tuple[Any, ...]:
        *outer, row, column = index
        if transposed:
            row, column = column, row
        return (*outer, row // EDGE, column // columns, *place(row % EDGE, column % columns))

    return where


def parse_tensor_tile(text: str) -> TensorTile | None:
    """Return the tile that ``str`` gave this text for, or ``None`` if there is no such tile, or none that fits."""
    numbers = text.removesuffix("t").split("x")
    if not text.endswith("t") or len(numbers) != 6 or not all(number.isdigit() and int(number) for number in numbers):
        return None
    tile = TensorTile(*map(int, numbers))
    whole = all(each % EDGE == 0 for each in (tile.rows, tile.columns, tile.steps))
    fits = tile.row_warps * tile.column_warps <= MOST_WARPS and tile.shared_bytes(2) <= MOST_SHARED_BYTES
    return tile if whole and fits else None


def usual_tensor_tile(sizes: list[int], dtype: str) -> TensorTile:
    """Return the tile that takes the fewest clocks for factors of a type.

    The clocks are those of the numbers above, so they order tiles; they are no times. A larger tile loads less for
    each product, and a smaller one keeps more multiprocessors busy and multiplies less padding.

    Args:
        sizes: Batch, rows, columns and terms of the sum.
        dtype: Type of the factors; as many bytes of each are loaded in one round.
    """
    item_bytes = bytes_of(dtype)
    tiles = (
        replace(tile, steps=2 * tile.steps // item_bytes, parts=parts)
        for tile, parts in itertools.product(TILES, PARTS)
    )
    return min(tiles, key=partial(_clocks, sizes, item_bytes))


def _clocks(sizes: list[int], item_bytes: int, tile: TensorTile) -> float:
    batch, rows, columns, terms = sizes
    tile_rows, tile_columns = tile.row_warps * tile.rows, tile.column_warps * tile.columns
    tiles = batch * math.ceil(rows / tile_rows) * math.ceil(columns / tile_columns)
    steps = math.ceil(terms / (tile.steps * tile.parts)) * tile.steps
    warps = tile.row_warps * tile.column_warps
    step = max(
        item_bytes * tile_rows * tile_columns / (2 * PRODUCTS),
        item_bytes * warps * (tile.rows + tile.columns) / SHARED_BYTES,
        item_bytes * (tile_rows + tile_columns) / LOADED_BYTES,
    )
    clocks = math.ceil(tiles * tile.parts / MULTIPROCESSORS) * steps * step
    if tile.parts == 1:
        return clocks
    # Sums of the parts are written and read in float32, by another kernel.
    moved = 8 * tile.parts * batch * rows * columns
    return clocks + moved / (LOADED_BYTES * MULTIPROCESSORS) + LAUNCH
