"""Schedules for reductions that have no tiles."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import s_tir

from .accesses import Access
from .sizes import CHUNKS, MIN_CHUNKS, MIN_PARALLEL_ELEMENTS, dividing_lanes, largest_divisor
from .tiling import MIN_LANES

LEAST_STEPS = 256
"""Fewest elements for each result from which partial results in vectors pay."""


def schedule_reduction(schedule: Any, block: Any, reads: list[Access], *, lanes: int) -> Any:
    """Return a schedule with a reduction on all threads, and in vectors where its operands are contiguous.

    Vectors are along the last axis of the result or, where many neighbours are reduced to one, along these. Few results
    of many elements are reduced in chunks, which threads share.
    """
    loops = schedule.get_loops(block.block_rv)
    if len(loops) != len(block.iters):
        return schedule
    axes = list(zip(loops, block.iters, strict=True))
    spatial = [pair for pair in axes if pair[1].kind == "S"]
    reduced = [pair for pair in axes if pair[1].kind != "S"]
    is_vector = bool(spatial) and all(access.is_contiguous(spatial[-1][1]) for access in reads)
    vector_lanes = largest_divisor(spatial[-1][1].dom, lanes) if is_vector else 1
    if vector_lanes < MIN_LANES:
        changed = schedule.copy()
        try:
            if _reduce_neighbours(changed, block, reads, spatial, reduced, lanes=lanes):
                return changed
        except (s_tir.schedule.ScheduleError, tvm.error.InternalError):
            # TVM does not know that the order of this reduction is free, or stumbles over a block that has no loops.
            pass
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
