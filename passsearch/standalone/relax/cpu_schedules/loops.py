"""The loops of a block, and the block that reads its results."""

from __future__ import annotations

from typing import Any

from tvm import tirx


def unroll_tile(schedule: Any, loops: list[Any]) -> None:
    """Vectorise the innermost of these loops and unroll the others, so that each value gets a register."""
    *outer, lane = loops
    for loop in outer:
        schedule.unroll(loop)
    schedule.vectorize(lane)


def reader_of(schedule: Any, block: Any) -> Any:
    """Return the block that reads the sums in their own order; without one, a new block that copies them."""
    spatial = [axis.dom for axis in block.iters if axis.kind == "S" and axis.dom > 1]
    readers = schedule.get_consumers(block.block_rv)
    if len(readers) == 1:
        sizes = [int(schedule.get(loop).extent) for loop in schedule.get_loops(readers[0])]
        sums = schedule.get(block.block_rv).writes[0].source
        if [size for size in sizes if size > 1] == spatial and _reads_in_order(schedule, readers[0], sums):
            return readers[0]
    return schedule.cache_write(block.block_rv, 0, "global")


def _reads_in_order(schedule: Any, reader: Any, sums: Any) -> bool:
    """Return True if a block reads every sum at its own indices, and the sums are no result of the function."""
    if any(param.same_as(sums) for param in schedule.mod["main"].params):
        return False
    statement = schedule.get(reader)
    (read,) = [region for region in statement.reads if region.source.same_as(sums)]
    axes = [axis.var for axis in statement.iter_vars if int(axis.dom.extent) > 1]
    bounds = [each for each, size in zip(read.region, sums.shape, strict=True) if int(size) > 1]
    return len(axes) == len(bounds) and all(
        each.min.same_as(axis) and isinstance(each.extent, tirx.IntImm) and int(each.extent) == 1
        for each, axis in zip(bounds, axes, strict=True)
    )


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
