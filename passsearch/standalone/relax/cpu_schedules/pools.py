"""Pools in steps of two or more along the last axis: a loop over single results, of which LLVM makes vectors.

TVM reads the elements of a strided vector one by one. LLVM reads whole vectors and shuffles them, where the loop over
results has nothing inside but the unrolled window. Padding is computed for one image at a time, directly before it.
"""

from __future__ import annotations

import math
from typing import Any

from .accesses import Access
from .loops import loops_of
from .reductions import MOST_STRIDE, stride
from .sizes import MIN_CHUNKS, MIN_PARALLEL_ELEMENTS

LEAST_RESULTS, MOST_UNROLLED = 12, 49
"""Fewest results along the last axis, and the largest window, 7 by 7, which is unrolled."""

IMAGE_AXES = 2
"""Axes of an image, after those over batches and channels."""


def is_pool_in_steps(schedule: Any, block: Any, reads: list[Access]) -> bool:
    """Return True if a block reduces small windows whose neighbours along the last axis lie some elements apart."""
    spatial = [axis for axis in block.iters if axis.kind == "S"]
    window = math.prod(axis.dom for axis in block.iters if axis.kind != "S")
    has_one_result = len(schedule.get(block.block_rv).writes) == 1
    if len(spatial) <= IMAGE_AXES or len(reads) != 1 or not has_one_result or window > MOST_UNROLLED:
        return False
    return spatial[-1].dom >= LEAST_RESULTS and 1 < stride(reads[0], spatial[-1]) <= MOST_STRIDE


def pool_images(schedule: Any, block: Any, *, threads: int) -> list[Any]:
    """Schedule a pool in steps along the last axis; return the padding that moved into it.

    Args:
        schedule: The schedule.
        block: The pool.
        threads: Number of threads.
    """
    spatial = [axis for axis in block.iters if axis.kind == "S"]
    reduced = [axis for axis in block.iters if axis.kind != "S"]
    copy = schedule.cache_write(block.block_rv, 0, "global")
    *outer, lines, results = loops_of(schedule, copy, spatial)
    images = math.prod(axis.dom for axis in spatial[:-IMAGE_AXES])
    # Windows along more axes share the padding of an image with those of its neighbours.
    has_images = images >= max(MIN_CHUNKS, threads) and len(reduced) <= IMAGE_AXES
    around = schedule.fuse(*outer, *([] if has_images else [lines]))
    if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
        schedule.parallel(around)
    schedule.compute_at(block.block_rv, results, preserve_unit_loops=True)
    loops = list(schedule.get_loops(block.block_rv))[-len(block.iters) :]
    steps = [loop for loop, axis in zip(loops, block.iters, strict=True) if axis.kind != "S"]
    for step in steps:
        schedule.unroll(step)
    schedule.decompose_reduction(block.block_rv, steps[0])
    padding = [each for each in schedule.get_producers(block.block_rv) if len(schedule.get_consumers(each)) == 1]
    if not has_images:
        return []
    for each in padding:
        schedule.compute_at(each, around, preserve_unit_loops=True)
    return padding
