"""Schedules for functions of which some sizes are open until they run."""

from __future__ import annotations

from typing import Any

from tvm import s_tir, tirx

from .accesses import Access, count_bindings
from .loops import unroll_tile
from .registers import Registers
from .scheduler import Scheduler
from .sizes import largest_divisor
from .tiling import MIN_LANES, Settings

OPEN_ROWS, OPEN_VECTORS = 6, 2
"""Most rows of a tile and most vectors of a row where sizes are open; twelve sums fit into sixteen registers."""


class OpenScheduler(Scheduler):
    """Schedules one function of which some sizes are open until it runs.

    Loops over open sizes are the outer ones, on all threads. A tile of a sum of products has constant sizes: the
    operands are copied with zeros up to a multiple of the tile, and the result is copied without what is beyond the
    size. A vector along an open size has a loop of its own for the rest.
    """

    def __init__(self, schedule: Any, blocks: list[Any], *, registers: Registers) -> None:
        settings = Settings(None, None, None, prefetch=0)
        super().__init__(schedule, blocks, registers=registers, settings=settings, constants=frozenset())
        self._can_overlap = False

    def _run(self) -> None:
        """Schedule the function.

        Raises:
            ScheduleError: TVM refuses a step.
        """
        blocks = self._blocks
        self._inline(blocks)
        reductions = [block for block in blocks if not block.is_injective()]
        is_product = len(reductions) == 1 and self._is_sum_of_products(reductions[0])
        tiled = self._tile_open(reductions[0]) if is_product else []
        for block in self._schedule.get_child_blocks(self._schedule.get_sblock("root")):
            if self._schedule.get(block).name_hint not in tiled:
                self._schedule_open(block)

    def _is_cheap(self, block: Any, readers: list[Any]) -> bool:
        """Return False for polynomials, because the sizes do not say how often they would be computed again."""
        return bool(readers) and not count_bindings(self._schedule.get(block.block_rv))

    def _schedule_open(self, block: Any) -> None:
        """Schedule a block that is no sum of products: outer loops on all threads, vectors along its last axis."""
        schedule, axes = self._schedule, list(self._schedule.get(block).iter_vars)
        loops = list(schedule.get_loops(block))
        if not loops or len(loops) != len(axes):
            return
        pairs = list(zip(loops, axes, strict=True))
        reduced = [loop for loop, axis in pairs if axis.iter_type == tirx.IterVar.CommReduce]
        *outer, last = [loop for loop, axis in pairs if axis.iter_type != tirx.IterVar.CommReduce] or [None]
        if last is None:
            return
        axis = axes[loops.index(last)]
        vector = None
        if self._is_contiguous(block, axis):
            last, vector = self._split_vector(last, has_rest=bool(outer) and not reduced)
        outer = outer if outer and not reduced else [*outer, last]
        schedule.reorder(*outer, *reduced, *([vector] if vector is not None and reduced else []))
        schedule.parallel(schedule.fuse(*outer))
        if vector is not None:
            schedule.vectorize(vector)
            if reduced:
                initial = schedule.decompose_reduction(block, reduced[0])
                schedule.vectorize(schedule.get_loops(initial)[-1])

    def _split_vector(self, loop: Any, *, has_rest: bool) -> tuple[Any, Any]:
        """Split a loop by the elements of a vector; the second result is ``None`` if vectors do not fit.

        An open size has a rest. TVM makes a loop of its own for it, unless the loop is the parallel one or sums up.
        """
        extent = self._schedule.get(loop).extent
        is_open = not isinstance(extent, tirx.IntImm)
        lanes = self._lanes if is_open else largest_divisor(int(extent), self._lanes)
        if lanes < MIN_LANES or (is_open and not has_rest):
            return loop, None
        outer, vector = self._schedule.split(loop, [None, lanes])
        if is_open:
            self._schedule.annotate(outer, "pragma_loop_partition_hint", 1)
        return outer, vector

    def _is_contiguous(self, block: Any, axis: Any) -> bool:
        """Return True if a block reads and writes neighbours along an axis, or what does not depend on it."""
        statement = self._schedule.get(block)
        accesses = [Access(region, 0) for region in (*statement.reads, *statement.writes)]
        return all(access.is_contiguous(axis) or not access.has(axis) for access in accesses)

    def _tile_open(self, block: Any) -> list[str]:
        """Schedule a sum of products in tiles; return the names of the scheduled blocks, none if tiles do not fit."""
        schedule, axes = self._schedule, list(block.iters)
        tile = self._open_tile(block)
        if tile is None:
            return []
        vector, row, (rows, vectors, lanes) = tile
        sizes = {id(vector): vectors * lanes, **({id(row): rows} if row is not None else {})}
        padding = [1 if isinstance(axis.dom, int) else sizes.get(id(axis), 1) for axis in axes]
        if any(size > 1 for size in padding):
            try:
                schedule.pad_einsum(block.block_rv, padding)
            except s_tir.schedule.ScheduleError:
                return []  # the padding of a convolution, for example, has no such form
        copy = schedule.cache_write(block.block_rv, 0, "global")
        loops = dict(zip(map(id, axes), schedule.get_loops(block.block_rv), strict=True))
        columns, *inner = schedule.split(loops[id(vector)], [None, vectors, lanes])
        outer = [loops[id(axis)] for axis in axes if axis.kind == "S" and axis is not vector and axis is not row]
        outer.append(columns)  # one block of weights serves all rows
        if row is not None:
            stripe, line = schedule.split(loops[id(row)], [None, rows])
            outer, inner = [*outer, stripe], [line, *inner]
        reduced = [loops[id(axis)] for axis in axes if axis.kind != "S"]
        schedule.reorder(*outer, *reduced, *inner)
        tiles = schedule.fuse(*outer)
        schedule.parallel(tiles)
        schedule.reverse_compute_at(copy, tiles)
        unroll_tile(schedule, inner)
        initial = schedule.decompose_reduction(block.block_rv, reduced[0])
        unroll_tile(schedule, list(schedule.get_loops(initial))[-len(inner) :])
        last = schedule.get_loops(copy)[-1]
        schedule.vectorize(schedule.split(last, [None, lanes])[1])
        return [schedule.get(each).name_hint for each in (block.block_rv, initial, copy)]

    def _open_tile(self, block: Any) -> tuple[Any, Any, tuple[int, int, int]] | None:
        """Return the axes of vectors and rows, and a tile's rows, vectors in a row and elements of a vector."""
        reads = self._reads(block)
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        readers = {id(axis): [access for access in reads if access.has(axis)] for axis in spatial}
        single = [axis for axis in spatial if len(readers[id(axis)]) == 1]

        def lanes_of(axis: Any) -> int:
            return largest_divisor(axis.dom, self._lanes) if isinstance(axis.dom, int) else self._lanes

        fit = [axis for axis in single if readers[id(axis)][0].is_contiguous(axis) and lanes_of(axis) >= MIN_LANES]
        # A size that is known needs no copies.
        vector = max(fit, key=lambda axis: (isinstance(axis.dom, int), lanes_of(axis)), default=None)
        if vector is None:
            return None
        operand, lanes = readers[id(vector)][0], lanes_of(vector)
        others = [axis for axis in single if readers[id(axis)][0] is not operand]
        row = others[-1] if others else None
        rows = 1 if row is None else OPEN_ROWS if not isinstance(row.dom, int) else largest_divisor(row.dom, OPEN_ROWS)
        vectors = largest_divisor(vector.dom // lanes, OPEN_VECTORS) if isinstance(vector.dom, int) else 1
        return vector, row, (rows, vectors, lanes)
