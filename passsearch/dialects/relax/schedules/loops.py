"""The loops of a block, and the block that reads its results."""

from __future__ import annotations

from typing import Any


def unroll_tile(schedule: Any, loops: list[Any]) -> None:
    """Vectorise the innermost of these loops and unroll the others, so that each value gets a register."""
    *outer, lane = loops
    for loop in outer:
        schedule.unroll(loop)
    schedule.vectorize(lane)


def reader_of(schedule: Any, block: Any) -> Any:
    """Return the block that reads the sums in their own order; without one, a new block that copies them."""
    spatial = [axis.dom for axis in block.iters if axis.kind == "S"]
    readers = schedule.get_consumers(block.block_rv)
    if len(readers) == 1:
        sizes = [int(schedule.get(loop).extent) for loop in schedule.get_loops(readers[0])]
        if sizes == spatial:
            return readers[0]
    return schedule.cache_write(block.block_rv, 0, "global")


def loops_of(schedule: Any, reader: Any, spatial: list[Any]) -> list[Any]:
    """Return a block's loops over these axes."""
    loops = list(schedule.get_loops(reader))
    if len(loops) == len(spatial):
        return loops
    # A copy also has loops over the buffer's dimensions of size 1; outside, they leave the others together.
    units = [loop for loop in loops if int(schedule.get(loop).extent) == 1]
    others = [loop for loop in loops if int(schedule.get(loop).extent) > 1]
    schedule.reorder(*units, *others)
    return others
