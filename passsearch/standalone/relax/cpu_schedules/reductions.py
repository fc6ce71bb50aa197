"""Schedules for reductions that have no tiles."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import s_tir

from .accesses import Access
from .loops import loops_of
from .overlap import COMBINATIONS
from .sizes import CHUNKS, MIN_CHUNKS, MIN_PARALLEL_ELEMENTS, dividing_lanes, largest_divisor
from .sizes import vector_lanes as overlapping_lanes
from .tiling import MIN_LANES

MOST_STRIDE = 4
"""Largest distance of what neighbouring results read, in elements, from which a vector of them pays."""

COLUMN_STEPS, COLUMN_VECTORS, MOST_COLUMNS = 64, 4, 64
"""Fewest elements for each result of a column from which several vectors of them are reduced together; how many vectors
and results at most."""

LEAST_STEPS = 256
"""Fewest elements for each result from which partial results in vectors pay."""


def is_widened(schedule: Any, block: Any, reads: list[Access], *, lanes: int) -> bool:
    """Return True if many neighbours are reduced to one, and no vector divides their number."""
    statement, last = schedule.get(block.block_rv), block.iters[-1]
    if (
        len(statement.writes) != 1
        or not isinstance(getattr(statement.body, "value", None), COMBINATIONS)
        or last.kind == "S"
    ):
        return False
    total = math.prod(axis.dom for axis in block.iters if axis.kind != "S")
    overlaps = overlapping_lanes(last.dom, lanes) > dividing_lanes(last.dom, lanes)
    return overlaps and total >= LEAST_STEPS and all(access.is_contiguous(last) for access in reads)


def schedule_reduction(
    schedule: Any, block: Any, reads: list[Access], *, lanes: int, is_contiguous: bool = False
) -> Any:
    """Return a schedule with a reduction on all threads, and in vectors where its operands are contiguous.

    Vectors are along the last axis of the result or, where many neighbours are reduced to one, along these. Few results
    of many elements are reduced in chunks, which threads share.

    Args:
        schedule: The schedule.
        block: The reduction.
        reads: What it reads.
        lanes: Elements of a vector.
        is_contiguous: True if neighbours are reduced, which the indices of ``reads`` do not show.
    """
    loops = schedule.get_loops(block.block_rv)
    if len(loops) != len(block.iters) or not math.prod(axis.dom for axis in block.iters):
        return schedule
    axes = list(zip(loops, block.iters, strict=True))
    spatial = [pair for pair in axes if pair[1].kind == "S"]
    reduced = [pair for pair in axes if pair[1].kind != "S"]
    is_vector = bool(spatial) and all(access.is_contiguous(spatial[-1][1]) for access in reads)
    vector_lanes = largest_divisor(spatial[-1][1].dom, lanes) if is_vector else 1
    is_column = is_vector and _columns(spatial[-1][1].dom, reduced, lanes=lanes) > 1
    if vector_lanes < MIN_LANES:
        changed = schedule.copy()
        try:
            reads = [] if is_contiguous else reads
            if _reduce_neighbours(changed, block, reads, spatial, reduced, lanes=lanes):
                return changed
        except (s_tir.schedule.ScheduleError, tvm.error.InternalError):
            # TVM does not know that the order of this reduction is free, or stumbles over a block that has no loops.
            pass
    if vector_lanes < MIN_LANES or is_column:
        changed = schedule.copy()
        try:
            if not is_contiguous and _reduce_in_registers(changed, block, reads, spatial, lanes=lanes):
                return changed
        except s_tir.schedule.ScheduleError:
            pass  # TVM refuses, for example, a block that others read in another order
    _reduce_side_by_side(schedule, block, spatial, reduced, lanes=vector_lanes)
    return schedule


def _reduce_side_by_side(schedule: Any, block: Any, spatial: list[Any], reduced: list[Any], *, lanes: int) -> None:
    """Compute neighbouring results in the elements of a vector if it has enough of them."""
    if not spatial:
        return
    outer, steps, vector = [loop for loop, _ in spatial], [loop for loop, _ in reduced], None
    if lanes >= MIN_LANES:
        rest, vector = schedule.split(outer[-1], [None, lanes])
        outer = [*outer[:-1], rest]
    schedule.reorder(*outer, *steps, *([vector] if vector is not None else []))
    fused = schedule.fuse(*outer)
    if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
        schedule.parallel(fused)
    if vector is not None:
        schedule.vectorize(vector)
        # The initial value of the sum gets a block of its own, with vectors as well.
        initial = schedule.decompose_reduction(block.block_rv, steps[0])
        schedule.vectorize(schedule.get_loops(initial)[-1])


def _reduce_neighbours(
    schedule: Any, block: Any, reads: list[Access], spatial: list[Any], reduced: list[Any], *, lanes: int
) -> bool:
    """Reduce neighbours in the elements of a vector, and then these; return False if that does not fit."""
    loop, last = reduced[-1]
    lanes = dividing_lanes(last.dom, lanes)
    total = math.prod(axis.dom for _, axis in reduced)
    has_one_result = len(schedule.get(block.block_rv).writes) == 1
    is_long = lanes >= MIN_LANES and total >= max(LEAST_STEPS, 2 * lanes)
    if not (is_long and has_one_result and all(access.is_contiguous(last) for access in reads)):
        return False
    schedule.reorder(*(each for each, _ in (*spatial, *reduced)))
    rest, _ = schedule.split(loop, [None, lanes])
    steps = schedule.fuse(*(each for each, _ in reduced[:-1]), rest)
    results, whole = math.prod(axis.dom for _, axis in spatial), block.block_rv
    rank = len(schedule.get(whole).writes[0].region)
    if results < MIN_CHUNKS:
        chunks = largest_divisor(total // lanes, CHUNKS)
        whole, rank = schedule.rfactor(schedule.split(steps, [chunks, None])[0], factor_axis=rank), rank + 1
    by_lane = schedule.rfactor(schedule.get_loops(whole)[-1], factor_axis=rank)
    *outer, step, lane = schedule.get_loops(by_lane)
    schedule.reverse_compute_at(whole, outer[-1])
    fused = schedule.fuse(*outer)
    if results * total >= MIN_PARALLEL_ELEMENTS:
        schedule.parallel(fused)
    schedule.reorder(step, lane)
    schedule.vectorize(lane)
    initial = schedule.decompose_reduction(by_lane, step)
    schedule.vectorize(schedule.get_loops(initial)[-1])
    return True


def _reduce_in_registers(schedule: Any, block: Any, reads: list[Access], spatial: list[Any], *, lanes: int) -> bool:
    """Reduce a vector of results in a register and then store it; return False if that does not fit.

    The last vector of an axis overlaps with the one before where vectors do not divide it.
    """
    if not spatial or any(stride(access, spatial[-1][1]) > MOST_STRIDE for access in reads):
        return False
    width = overlapping_lanes(spatial[-1][1].dom, lanes)
    if width < MIN_LANES or len(schedule.get(block.block_rv).writes) != 1:
        return False
    reduced = [(None, axis) for axis in block.iters if axis.kind != "S"]
    width *= _columns(spatial[-1][1].dom, reduced, lanes=lanes) if width == lanes else 1
    copy = schedule.cache_write(block.block_rv, 0, "global")
    *outer, last = loops_of(schedule, copy, [axis for _, axis in spatial])
    rest, lane = schedule.split(last, [None, width])
    results = schedule.fuse(*outer, rest)
    schedule.compute_at(block.block_rv, results, preserve_unit_loops=True)
    axes = list(zip(list(schedule.get_loops(block.block_rv))[-len(block.iters) :], block.iters, strict=True))
    *units, vector = [loop for loop, axis in axes if axis.kind == "S"]
    steps = [loop for loop, axis in axes if axis.kind != "S"]
    schedule.reorder(*units, *steps, vector)
    if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
        schedule.parallel(results)
    for loop in (lane, vector):
        schedule.vectorize(loop)
    initial = schedule.decompose_reduction(block.block_rv, steps[0])
    schedule.vectorize(schedule.get_loops(initial)[-1])
    return True


def _columns(size: int, reduced: list[Any], *, lanes: int) -> int:
    """Return how many vectors of results are reduced together: several where each is far from the one below."""
    steps = math.prod(axis.dom for _, axis in reduced)
    vectors = min(COLUMN_VECTORS, max(1, MOST_COLUMNS // lanes))
    return vectors if steps >= COLUMN_STEPS and size >= 2 * vectors * lanes else 1


def stride(access: Access, axis: Any) -> float:
    """Return the distance, in elements, of what is read for two neighbours along an axis."""
    return access.stride_bytes(axis) * access.size / max(access.bytes, 1)
