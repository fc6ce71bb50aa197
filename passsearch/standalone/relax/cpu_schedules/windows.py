"""Depthwise convolutions, computed in windows of the output whose data stay in the nearest cache."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from .accesses import BYTE, Access, element_bits
from .loops import loops_of, reader_of, unroll_tile
from .sizes import (
    MIN_CHUNKS,
    MIN_PARALLEL_ELEMENTS,
    all_divisors,
    dividing_lanes,
    imbalance,
    largest_divisor,
    part_count,
)
from .tiling import MIN_LANES, Settings

MIN_WINDOW_AXES, MAX_UNROLLED_STEPS = 3, 49
"""Axes of a depthwise convolution's output, and the largest kernel, 7 by 7, whose loops are unrolled."""

SUMS_SHARE = 3
"""Vectors of sums in a tile of a depthwise convolution, as part of those in other tiles; weights take registers too."""

VECTORS = 2
"""Vectors of a tile by default; with one, seventeen depthwise convolutions took a third longer on average."""

WINDOW_BYTES = 30 * 1024
"""Size of the data for a window of a depthwise convolution; the nearest cache of most processors has 32 KiB."""

REMAINDER_COST = 1.2
"""Time of a tile where the last one has fewer rows, as a multiple of another's; measured on widths from 19 to 150.

Of a window that is a whole line, the last tile begins earlier instead, which costs less.
"""


@dataclass(frozen=True)
class OutputWindow:
    """The part of a depthwise convolution's output that is computed together; the data for it stay in the cache.

    Attributes:
        lines: Size along the axis before the last two.
        tiles: Number of tiles of sums in one line.
        rows: Sums of one tile along the axis before the last.
        vectors: Vectors along the last axis.
        lanes: Elements of a vector.
    """

    lines: int
    tiles: int
    rows: int
    vectors: int
    lanes: int

    @classmethod
    def choose(
        cls, block: Any, reads: list[Access], *, lanes: int, settings: Settings, threads: int
    ) -> OutputWindow | None:
        """Return the window that computes and copies the least, in equal shares for the threads.

        It is ``None`` if the last axis is not fit for vectors.
        """
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        reduced = [axis for axis in block.iters if axis.kind != "S"]
        if len(spatial) < MIN_WINDOW_AXES or math.prod(axis.dom for axis in reduced) > MAX_UNROLLED_STEPS:
            return None
        *_, line, row, vector = spatial
        lanes = dividing_lanes(vector.dom, lanes)
        if lanes < MIN_LANES or not all(access.is_contiguous(vector) for access in reads):
            return None
        if any(access.divisors(vector) for access in reads):  # channels of groups, which read the same data
            return None
        assert settings.rows is not None
        vectors = largest_divisor(vector.dom // lanes, settings.vectors or VECTORS)
        rows = _window_rows(row.dom, most=max(settings.rows // SUMS_SHARE // vectors, 1))
        data = max(reads, key=lambda access: access.size)
        read_lines, read_columns = (data.span(axis, reduced) for axis in (line, row))
        blocks = math.prod(axis.dom for axis in spatial[:-3]) * vector.dom // (lanes * vectors)
        most_values = WINDOW_BYTES * BYTE // element_bits(data.buffer.dtype) // (lanes * vectors)

        products = line.dom * row.dom * math.prod(axis.dom for axis in reduced)

        def cost(size: tuple[int, int]) -> tuple[bool, bool, float]:
            lines, tiles = size
            count = line.dom // lines * part_count(row.dom, tiles * rows)
            values = read_lines(lines) * read_columns(tiles * rows)
            is_uneven = blocks * count < max(MIN_CHUNKS, threads)
            return values > most_values, is_uneven, imbalance(blocks * count, threads) * (products + count * values)

        sizes = itertools.product(all_divisors(line.dom), all_divisors(part_count(row.dom, rows)))
        lines, tiles = min(sizes, key=cost)
        return cls(lines, tiles, rows, vectors, lanes)

    def is_whole_line(self, size: int) -> bool:
        """Return True if one window covers a line of this size."""
        return self.tiles * self.rows >= size

    def compute(self, schedule: Any, block: Any) -> list[str]:
        """Compute one window of the output at a time, directly after the data that it needs; return all block names."""
        reader = reader_of(schedule, block)
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        *rest, lines, row, channels = loops_of(schedule, reader, spatial)
        blocks, vector, lane = schedule.split(channels, [None, self.vectors, self.lanes])
        stripe, line = schedule.split(lines, [None, self.lines])
        column, tile, row = schedule.split(row, [None, self.tiles, self.rows])
        schedule.reorder(*rest, stripe, column, blocks, line, tile, row, vector, lane)
        windows = schedule.fuse(*rest, stripe, column, blocks)
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(windows)
        unroll_tile(schedule, [row, vector, lane])
        schedule.compute_at(block.block_rv, tile, preserve_unit_loops=True)
        producers = schedule.get_producers(block.block_rv)
        copied = [producer for producer in producers if len(schedule.get_consumers(producer)) == 1]
        for producer in copied:
            schedule.compute_at(producer, windows)
            last = schedule.get_loops(producer)[-1]
            if int(schedule.get(last).extent) % self.lanes == 0:
                *_, lane = schedule.split(last, [None, self.lanes])
                schedule.vectorize(lane)
        self._unroll_sum(schedule, block)
        return [schedule.get(scheduled).name_hint for scheduled in (block.block_rv, reader, *copied)]

    def _unroll_sum(self, schedule: Any, block: Any) -> None:
        """Unroll all loops of a sum with vectors along its last axis, so that LLVM keeps it in registers throughout."""
        axes = list(block.iters)
        loops = list(schedule.get_loops(block.block_rv))[-len(axes) :]
        *units, row, channels = [loop for loop, axis in zip(loops, axes, strict=True) if axis.kind == "S"]
        steps = [loop for loop, axis in zip(loops, axes, strict=True) if axis.kind != "S"]
        vector, lane = schedule.split(channels, [None, self.lanes])
        schedule.reorder(*units, *steps, row, vector, lane)
        unroll_tile(schedule, [*steps, row, vector, lane])
        initial = schedule.decompose_reduction(block.block_rv, steps[0])
        unroll_tile(schedule, list(schedule.get_loops(initial))[-3:])


def _window_rows(size: int, *, most: int) -> int:
    """Return the rows of a tile that fit an axis best, where the last tile may have fewer rows.

    A tile loads its weights once for all rows. The last one computes the rows that it does not have as well.
    """

    def cost(rows: int) -> float:
        return part_count(size, rows) * (rows + 1) * (REMAINDER_COST if size % rows else 1)

    return min(range(1, most + 1), key=cost)
