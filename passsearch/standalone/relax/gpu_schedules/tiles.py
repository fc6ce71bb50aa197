"""Tiles of a product of matrices: what the threads of a block compute together."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.s_tir.dlight.gpu.matmul import auto_inline_consumer_chain, auto_inline_producers

from .sums import sum_in_threads

MULTIPROCESSORS = 128
"""About as many as a large GPU has: an H100 has 132, an A100 108."""

MOST_TILES_IN_PARTS = 16 * MULTIPROCESSORS

MOST_UNROLLED = 256

WIDTH = 4
"""Values of 32 bits that one instruction reads or writes at most."""


@dataclass(frozen=True)
class Tile:
    """A way to compute C[i, j], the sums of A[i, k] B[j, k], in which a block of threads computes a tile of results.

    All threads of a block load what the next steps of the sum need into shared memory, neighbours in memory by
    neighbouring threads. A small product, such as a convolution on 7 by 7 values, has fewer tiles than a GPU has
    multiprocessors. Its sum can be split: as many times more blocks compute parts of it, which a second kernel adds up.

    Attributes:
        row_threads: Threads of a block along i.
        column_threads: Threads of a block along j.
        rows: Results of a thread along i.
        columns: Results of a thread along j.
        steps: Terms of the sum that are in shared memory together.
        parts: Number of parts of the sum.
    """

    row_threads: int
    column_threads: int
    rows: int
    columns: int
    steps: int
    parts: int

    least_padding: ClassVar[int] = 2

    def __str__(self) -> str:
        """Return the tile as an argument of ``ScheduleGPU``."""
        return "x".join(map(str, astuple(self)))

    def apply(self, schedule: Any, main: Any, inner: list[bool]) -> Any:
        """Return the schedule, or ``None`` for a function of several results whose sums have parts.

        Args:
            schedule: The schedule so far.
            main: Block that multiplies two matrices.
            inner: For A and B, True if values that follow each other along k are neighbours in memory.
        """
        tile = (self.row_threads * self.rows, self.column_threads * self.columns, self.steps * self.parts)
        schedule.pad_einsum(main, [1, *tile])
        if self.parts > 1:
            *_, terms = schedule.get_loops(main)
            part, _ = schedule.split(terms, [self.parts, None])
            total, main = main, schedule.rfactor(part, 0)
        result = self._bind(schedule, main, inner)
        if self.parts > 1:
            return schedule if sum_in_threads(schedule, total) else None
        auto_inline_consumer_chain(schedule, result)
        return schedule

    def _bind(self, schedule: Any, main: Any, inner: list[bool]) -> Any:
        """Bind the loops of a block to threads; return the block that writes its results."""
        batch, i, j, *parts, k = schedule.get_loops(main)
        # The results of one thread lie apart, so that neighbouring threads read and write neighbours in memory.
        row_block, row, row_thread = schedule.split(i, [None, self.rows, self.row_threads])
        column_block, column, column_thread = schedule.split(j, [None, self.columns, self.column_threads])
        outer, step = schedule.split(k, [None, self.steps])
        threads = (row, column, row_thread, column_thread)
        schedule.reorder(*parts, batch, row_block, column_block, *threads, outer, step)
        # Images have many rows, and CUDA has at most 65,535 blocks along y.
        schedule.bind(schedule.fuse(*parts, batch, row_block), "blockIdx.x")
        schedule.bind(column_block, "blockIdx.y")
        for loop, name in zip(threads, ("vthread.y", "vthread.x", "threadIdx.y", "threadIdx.x"), strict=True):
            schedule.bind(loop, name)
        schedule.annotate(column_thread, "pragma_auto_unroll_max_step", MOST_UNROLLED)
        schedule.annotate(column_thread, "pragma_unroll_explicit", 1)
        result = schedule.cache_write(main, 0, "local")
        schedule.reverse_compute_at(result, column_thread, preserve_unit_loops=True)
        for place, size in ((0, self.row_threads * self.rows), (1, self.column_threads * self.columns)):
            self._load(schedule, main, place, outer, size=size, inner=inner[place])
        schedule.decompose_reduction(main, outer)
        return result

    def _load(
        self, schedule: Any, main: Any, place: int, outer: Any, *, size: int, inner: bool, transposed: bool = False
    ) -> None:
        """Load an operand into shared memory.

        Args:
            schedule: The schedule.
            main: Block that reads the operand.
            place: Place of the operand.
            outer: Loop over parts of the sum.
            size: Number of rows or columns of the tile.
            inner: True if terms that follow each other in the sum are neighbours in memory.
            transposed: True if rows or columns are to be neighbours in shared memory, and not steps of the sum.
        """
        block = schedule.cache_read(main, place, "shared")
        schedule.compute_at(block, outer, preserve_unit_loops=True)
        *_, first, second = schedule.get_loops(block)
        if transposed:
            schedule.transform_layout(block, ("write", 0), lambda batch, value, step: (batch, step, value))
        if not inner:
            schedule.reorder(second, first)
            first, second = second, first
        threads = self.row_threads * self.column_threads
        width = math.gcd(WIDTH, max(size * self.steps // threads, 1)) if inner or transposed else 1
        loops = schedule.split(schedule.fuse(first, second), [None, self.row_threads, self.column_threads, width])
        schedule.bind(loops[1], "threadIdx.y")
        schedule.bind(loops[2], "threadIdx.x")
        schedule.vectorize(loops[3])
        schedule.storage_align(block, 0, axis=1, factor=8, offset=max(width, self.least_padding))
        auto_inline_producers(schedule, block)


class VectorTile(Tile):
    """A tile whose threads read and write vectors of four values.

    A vector holds neighbouring rows or columns, or the next steps of the sum where these are neighbours in the left
    operand's memory, of which few rows are read at once. Steps of the right operand are stored apart, so that
    threads read neighbouring vectors of columns. So 4 by 4 results take 32 reads of shared memory for 256 products, and
    4 by 2 results of a ``Tile`` 64 (docs/evidence/gpu.md). TVM reads value by value where an address may not be a
    multiple of a vector.
    """

    least_padding: ClassVar[int] = WIDTH

    def __str__(self) -> str:
        """Return the tile as an argument of ``ScheduleGPU``."""
        return f"{super().__str__()}v"

    def _bind(self, schedule: Any, main: Any, inner: list[bool]) -> Any:
        """Bind the loops of a block to threads; return the block that writes its results."""
        batch, i, j, *parts, k = schedule.get_loops(main)
        row_block, row_thread, row = schedule.split(i, [None, self.row_threads, self.rows])
        vectors = max(self.columns // WIDTH, 1)
        column_loops = schedule.split(j, [None, vectors, self.column_threads, self.columns // vectors])
        column_block, vector, column_thread, column = column_loops
        outer, middle, step = schedule.split(k, [None, self.steps // WIDTH, WIDTH])
        threads = (vector, row_thread, column_thread)
        schedule.reorder(*parts, batch, row_block, column_block, *threads, outer, middle, step, row, column)
        schedule.bind(schedule.fuse(*parts, batch, row_block), "blockIdx.x")
        schedule.bind(column_block, "blockIdx.y")
        for loop, name in zip(threads, ("vthread.x", "threadIdx.y", "threadIdx.x"), strict=True):
            schedule.bind(loop, name)
        schedule.annotate(column_thread, "pragma_auto_unroll_max_step", MOST_UNROLLED)
        schedule.annotate(column_thread, "pragma_unroll_explicit", 1)
        result = schedule.cache_write(main, 0, "local")
        schedule.reverse_compute_at(result, column_thread, preserve_unit_loops=True)
        _vectorise(schedule, result)
        for place, size in ((0, self.row_threads * self.rows), (1, self.column_threads * self.columns)):
            along_sum = inner[place] and place == 0
            self._load(schedule, main, place, outer, size=size, inner=inner[place], transposed=not along_sum)
            values = schedule.cache_read(main, place, "local")
            schedule.compute_at(values, middle if along_sum else step, preserve_unit_loops=True)
            _vectorise(schedule, values)
        schedule.decompose_reduction(main, outer)
        return result


def parse_tile(text: str) -> Tile | None:
    """Return the tile that ``str`` gave this text for, or ``None`` if there is no such tile."""
    numbers = text.removesuffix("v").split("x")
    if len(numbers) != 6 or not all(number.isdigit() and int(number) for number in numbers):
        return None
    values = [int(number) for number in numbers]
    if not text.endswith("v"):
        return Tile(*values)
    tile = VectorTile(*values)
    fit = all(each in (1, 2) or each % WIDTH == 0 for each in (tile.rows, tile.columns)) and tile.steps % WIDTH == 0
    return tile if fit else None


def usual_tile(sizes: list[Any]) -> Tile:
    """Return the tile that suits most products of these sizes: batch, rows, columns and terms of the sum.

    On an H100, at batch size 1, all products of ResNet-50, of MobileNetV2 or of BERT-base together take 2 to 4 %
    longer by these tiles than by the best of fifteen settings for each (docs/evidence/gpu.md).
    """
    usual = Tile(8, 16, 2, 2, 32, 1)
    if not all(isinstance(size, tirx.IntImm) for size in sizes):
        return usual
    batch, rows, columns, terms = map(int, sizes)
    tiles = batch * math.ceil(rows / 16) * math.ceil(columns / 32)
    if tiles <= MULTIPROCESSORS and terms >= 384:
        return Tile(8, 16, 2, 2, 32, 8)
    # The parts of many tiles would take memory, and the GPU is busy without them.
    if tiles <= MOST_TILES_IN_PARTS and terms >= 256:
        return Tile(8, 16, 4, 2, 32, 4)
    return Tile(8, 16, 4, 2, 32, 1) if tiles > MULTIPROCESSORS else usual


def _vectorise(schedule: Any, block: Any) -> None:
    """Have the innermost loop of a block run in vectors, which it has a whole number of."""
    *_, loop = schedule.get_loops(block)
    if int(schedule.get(loop).extent) > WIDTH:
        _, loop = schedule.split(loop, [None, WIDTH])
    schedule.vectorize(loop)
