"""The pass that schedules kernels which reduce rows and use the results in the same rows: softmax and layer norms.

Such a kernel is computed row by row, so that all its passes but the first find the row in the nearest cache.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func

from .accesses import element_bits, substitute
from .cpu_pass import SCHEDULED, cpu_pass, unscheduled
from .elementwise import can_be_computed_twice
from .limits import with_finite_limits
from .overlap import INDEX, overlap_tiles, widen_reductions
from .registers import Registers
from .sizes import (
    CHUNKS,
    CHUNKS_OF_A_THREAD,
    MIN_PARALLEL_ELEMENTS,
    dividing_lanes,
    largest_divisor,
    part_count,
    row_lanes,
)
from .tiling import MIN_LANES

ACCUMULATORS = 4
"""Vectors of partial sums; one alone would wait for each addition to end."""
LEAST_STEPS = 2
"""Steps of all accumulators from which a row that no vector divides has several."""

MOST_PADDING = 1 / 8
"""Most elements that a row may be longer for that, as a share of it."""

LEAST_ALLOCATED = 256
"""Elements of 32 bits that TVM allocates at run time; it has place for fewer on the stack (``kMaxStackAlloca``)."""

MIN_ROWS = 16
"""Number of rows from which the rows of a large kernel are enough work for all threads."""


def ScheduleRows() -> Any:  # noqa: N802
    """Return a pass that schedules the kernels of rows on a CPU; it changes no other kernel and no other target."""

    def schedule(module: Any, registers: Registers) -> Any:
        for name, function in unscheduled(module):
            module.update_func(name, _scheduled(function, registers))
        return module

    return cpu_pass(schedule, name="ScheduleRows")


def _scheduled(function: Any, registers: Registers) -> Any:
    """Return the function with a schedule, or the function itself if it does not compute rows of numbers."""
    # An open size is a parameter, too, and has no elements.
    dtypes = [str(param.dtype) for param in function.params if hasattr(param, "dtype")] or ["bool"]
    # TVM lowers vectors of bfloat16 that it names, as in a polynomial, to NaN.
    if dtypes[-1] == "bool" or "bfloat16" in dtypes:
        return function
    finite, restored = with_finite_limits(function)
    scheduler = _RowScheduler(finite, lanes=registers.bits // element_bits(dtypes[-1]), threads=registers.threads)
    try:
        return restored(scheduler.run()) if scheduler.fits() else function
    except s_tir.schedule.ScheduleError:
        return function  # TVM refuses, for example, to split a reduction that has two results


class _RowScheduler:
    """Schedules one function whose blocks share their rows, the last block being elementwise."""

    def __init__(self, function: Any, *, lanes: int, threads: int) -> None:
        self._schedule, self._lanes, self._threads = s_tir.Schedule(function), lanes, threads
        self._accumulators = ACCUMULATORS
        self._blocks = normalize_prim_func(self._schedule) or []

    def fits(self) -> bool:
        """Return True if the function reduces rows and ends with an elementwise block over rows of the same length."""
        if not self._blocks or not all(isinstance(size, int) for block in self._blocks for size in block.dom()):
            return False
        *before, last = self._blocks
        reductions = [block for block in before if not block.is_injective()]
        length = last.dom()[-1] if last.dom() else 0
        rows = math.prod(last.dom()[:-1])
        sizes = (rows, rows * length)
        return (
            last.is_injective()
            and (rows >= MIN_ROWS or rows * length < MIN_PARALLEL_ELEMENTS)
            and bool(reductions)
            and all(self._reduces_rows(block, length) for block in reductions)
            and all(math.prod(block.dom()) in sizes for block in self._blocks)
        )

    def run(self) -> Any:
        """Return the scheduled function."""
        self._widen_reductions()
        schedule, last = self._schedule, self._blocks[-1].block_rv
        steps = [step for block in self._inline() for step in self._steps(block)]
        loops = schedule.get_loops(last)
        row = schedule.fuse(*loops[:-1]) if len(loops) > 1 else schedule.split(loops[-1], [1, None])[0]
        for step in reversed(steps):
            schedule.compute_at(step, row, preserve_unit_loops=True)
        # First, because TVM makes no loop parallel around a reduction whose initial value has a block of its own.
        if math.prod(self._blocks[-1].dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(row)
        for step in steps:
            self._vectorize(step)
        self._vectorize_last_loop(last)
        function = overlap_tiles(schedule.mod["main"])
        if self._blocks[-1].dom()[-1] >= LEAST_ALLOCATED:
            function = _in_chunks(function, self._threads)
        return function.with_attr(SCHEDULED, True)

    def _widen_reductions(self) -> None:
        """Give reductions of a size that no vector divides a multiple of the elements of a vector as their size.

        The elements of all accumulators are one vector: only then they are neighbours also where they overlap.
        """
        length, lanes = self._blocks[-1].dom()[-1], self._lanes
        if row_lanes(length, lanes) == dividing_lanes(length, lanes):
            return
        padded = -(-length // (ACCUMULATORS * lanes)) * ACCUMULATORS * lanes
        if length < LEAST_STEPS * ACCUMULATORS * lanes or padded - length > MOST_PADDING * length:
            self._accumulators = 1
        lanes *= self._accumulators
        names = [block.name for block in self._blocks if not block.is_injective()]
        function = widen_reductions(self._schedule.mod["main"], lanes=lanes, names=names)
        self._schedule = s_tir.Schedule(function)
        self._blocks = normalize_prim_func(self._schedule) or []

    def _reduces_rows(self, block: Any, length: int) -> bool:
        """Return True if a block reduces the contiguous last dimension of its only operand."""
        *rows, reduced = block.iters
        statement = self._schedule.get(block.block_rv)
        own = [write.source for write in statement.writes]
        reads = [read for read in statement.reads if not any(read.source.same_as(buffer) for buffer in own)]
        return (
            reduced.kind == "R"
            and reduced.dom == length
            and all(axis.kind == "S" for axis in rows)
            and len(reads) == len(own) == 1
            and reads[0].region[-1].min.same_as(reduced.var)
        )

    def _inline(self) -> list[Any]:
        """Inline elementwise blocks where that costs little; return the blocks before the last that are left."""
        left = []
        for block in self._blocks[:-1]:
            if block.is_injective() and self._is_inlined(block):
                self._schedule.compute_inline(block.block_rv)
            else:
                left.append(block)
        return left

    def _is_inlined(self, block: Any) -> bool:
        readers = self._schedule.get_consumers(block.block_rv)
        last = self._blocks[-1]
        is_per_row = math.prod(block.dom()) < math.prod(last.dom())
        if is_per_row:  # inlined, it would be computed again for every element of the row
            return False
        return len(readers) == 1 or not _is_expensive(self._schedule.get(block.block_rv))

    def _steps(self, block: Any) -> list[Any]:
        """Return a block, a reduction split into several: of whole vectors, and last of the elements of one vector."""
        if block.is_injective():
            return [block.block_rv]
        steps, rank = [], len(self._schedule.get(block.block_rv).writes[0].region)
        for vectors in (self._accumulators, 1):
            loop = self._schedule.get_loops(block.block_rv)[-1]
            size = int(self._schedule.get(loop).extent)
            lanes = self._lanes_of_sums(size, vectors)
            if MIN_LANES <= lanes < size:
                steps.append(self._schedule.rfactor(self._schedule.split(loop, [None, lanes])[1], factor_axis=rank))
        return [*steps, block.block_rv]

    def _lanes_of_sums(self, size: int, vectors: int) -> int:
        """Return the number of partial sums, which divides the size; whole vectors where these divide it."""
        if size % self._lanes:
            return largest_divisor(size, vectors * self._lanes)
        whole = largest_divisor(size // self._lanes, vectors)
        if whole == 1 < vectors:
            whole = largest_divisor(size // self._lanes, 2 * vectors)
        return whole * self._lanes

    def _vectorize(self, step: Any) -> None:
        """Vectorise a block that writes a row or a vector."""
        schedule, axes = self._schedule, self._schedule.get(step).iter_vars
        loops = list(schedule.get_loops(step))[-len(axes) :]
        reduced = [loop for loop, axis in zip(loops, axes, strict=True) if axis.iter_type == tirx.IterVar.CommReduce]
        if not reduced:
            self._vectorize_last_loop(step)
            return
        spatial = [loop for loop in loops if not any(loop.same_as(other) for other in reduced)]
        lane = max(spatial, key=lambda loop: int(schedule.get(loop).extent), default=None)
        if lane is None or int(schedule.get(lane).extent) < MIN_LANES:
            return
        schedule.reorder(*reduced, lane)
        schedule.vectorize(lane)
        initial = schedule.decompose_reduction(step, reduced[0])
        schedule.vectorize(schedule.get_loops(initial)[-1])

    def _vectorize_last_loop(self, step: Any) -> None:
        schedule, loop = self._schedule, self._schedule.get_loops(step)[-1]
        lanes_of = row_lanes if can_be_computed_twice(schedule, step) else dividing_lanes
        lanes = lanes_of(int(schedule.get(loop).extent), self._lanes)
        if lanes >= MIN_LANES:
            schedule.vectorize(schedule.split(loop, [None, lanes])[1])


def _in_chunks(function: Any, threads: int) -> Any:
    """Return a function whose threads share chunks of rows; TVM allocates what a row needs once for each chunk."""

    def split(loop: Any) -> Any:
        if loop.kind != tirx.ForKind.PARALLEL:
            return loop
        rows = int(loop.extent)
        size = max(1, rows // max(CHUNKS, CHUNKS_OF_A_THREAD * threads))
        chunk, row, zero = tirx.Var("chunk", INDEX), tirx.Var("row", INDEX), tirx.IntImm(INDEX, 0)
        whole, begin = tirx.IntImm(INDEX, size), chunk * size
        body = substitute(loop.body, {loop.loop_var: begin + row})
        inner = tirx.For(row, zero, tirx.min(whole, rows - begin) if rows % size else whole, tirx.ForKind.SERIAL, body)
        return tirx.For(chunk, zero, tirx.IntImm(INDEX, part_count(rows, size)), loop.kind, inner)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, split)))


def _is_expensive(statement: Any) -> bool:
    """Return True if a block calls a function, or has the polynomial of one."""
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.Let, found.append))
    tvm_ffi.structural_walk(statement, (tvm.ir.Call, found.append))
    return bool(found)
