"""Schedules for elementwise blocks that read along another axis than they write, as a transposition does."""

from __future__ import annotations

import math
from typing import Any

from .accesses import Access
from .sizes import vector_lanes
from .tiling import MIN_LANES

MOST_LINES = 16
"""Most lines of a tile, and most elements of a line. LLVM writes an instruction for each of them."""


LEAST_BYTES = 2**19
"""Size of what is read from which tiles are better. Less of it stays in the second cache between two lines."""


def contiguous_place(block: Any, reads: list[Access], *, lanes: int) -> int | None:
    """Return the place of the axis along which neighbours are neighbours in all these reads; ``None`` without one.

    The last axis, along which the block writes, is left out. There is none either where little is read.
    """
    if sum(access.bytes for access in reads) < LEAST_BYTES:
        return None
    for place, axis in enumerate(block.iters[:-1]):
        if vector_lanes(axis.dom, lanes) >= MIN_LANES and all(access.has_unit_stride(axis) for access in reads):
            return place
    return None


def compute_in_tiles(schedule: Any, block: Any, *, place: int, lanes: int) -> tuple[Any, int]:
    """Compute a block in tiles of two axes; return the loop over all tiles, and the number of tiles.

    Without tiles, each line of the output reads one element of a cache line, which has left the cache when the next
    line needs its neighbour.

    Args:
        schedule: The schedule.
        block: The block, with one loop for each axis.
        place: Place of the axis that the block reads along.
        lanes: Elements of a vector, which are along the last axis.
    """
    loops = list(schedule.get_loops(block.block_rv))
    height, width = (vector_lanes(block.iters[each].dom, min(lanes, MOST_LINES)) for each in (place, -1))
    parts, vector = schedule.split(loops[-1], [None, width])
    groups, line = schedule.split(loops[place], [None, height])
    tiles = [*loops[:place], *loops[place + 1 : -1], parts, groups]
    schedule.reorder(*tiles, line, vector)
    schedule.unroll(line)
    schedule.vectorize(vector)
    count = math.prod(int(schedule.get(loop).extent) for loop in tiles)
    return schedule.fuse(*tiles), count
