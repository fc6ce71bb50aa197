"""Schedules for functions of which all sizes are known."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir
from tvm.s_tir.dlight.analysis import normalize_prim_func

from .accesses import Access, Packing, count_bindings, count_reads, element_bits
from .edits import KEPT, STEP_ELEMENTS, WIDENED
from .elementwise import can_be_computed_twice, can_be_flat, is_uniform, repeats, uniform_lanes
from .groups import Groups
from .loops import loops_of, reader_of, unroll_tile
from .overlap import overlap_tiles, read_repeated_columns, widen_reductions
from .pair_products import SUM_BITS, WIDE_SUMS
from .parts import Parts
from .pools import is_pool_in_steps, pool_images
from .prefetch import LEAST_BYTES, Prefetch, most_vectors, prefetch_steps
from .reductions import is_widened, schedule_reduction
from .registers import Registers
from .sizes import MIN_PARALLEL_ELEMENTS, chunk_count, dividing_lanes, largest_divisor, part_count, vector_lanes
from .tiling import MIN_LANES, Settings, Tiling
from .transposes import compute_in_tiles, contiguous_place
from .windows import OutputWindow
from .words import OFFSETS, UNROLLED

TILE = "passsearch.tile"
"""Annotation of a block that is computed for one tile at a time: the size of a tile along the axes of the output."""

MOST_BINDINGS = 9
"""Variables of ``ExpandMath`` in a block that is still inlined, those of three functions. LLVM's code generator writes
out every use of such a variable: for a chain of three ``exp`` it needs 0.1 s, for four 1.6 s and for five 45 s."""

MOST_READS = 64
"""Reads in an expression up to which a block is inlined that its reader reads several times. TVM's FastMathTransform
writes out ``exp`` with several reads of its operand; for a chain of eight, inlining took longer than any time limit."""


class Scheduler:
    """Schedules one function of which all sizes are known."""

    def __init__(
        self, schedule: Any, blocks: list[Any], *, registers: Registers, settings: Settings, constants: frozenset[int]
    ) -> None:
        self._schedule, self._blocks = schedule, blocks
        self._registers, self._settings, self._constants = registers, settings, constants
        self._lanes = registers.bits // _output_bits(schedule.mod["main"])
        self.packings: dict[int, Packing] = {}
        self._kept = [block.name for block in blocks if KEPT in schedule.get(block.block_rv).annotations]
        self._can_overlap = True
        self._left_out: list[str] = []  # blocks whose tiles do not overlap
        self._flat: list[str] = []  # blocks whose vectors go on in the next row
        self._widened: list[str] = []  # reductions with more steps than elements
        self._parts: list[tuple[Parts, Any]] = []  # each with the loop over the last axis of its block
        self._prefetch: Prefetch | None = None
        self._prefetch_loops: list[Any] = []  # that over tiles, and those of the sum around a few steps

    def run(self) -> Any:
        """Schedule the function and return it."""
        self._run()
        function = self._schedule.mod["main"]
        for parts, loop in self._parts:
            function = parts.insert(function, self._schedule.get(loop))
        if self._can_overlap:
            function = overlap_tiles(function, left_out=self._left_out, flat=self._flat)
        for place, packing in self.packings.items():
            if packing.repeats:
                function = read_repeated_columns(function, function.params[place], packing)
        if self._prefetch:
            tile, *summing = self._prefetch_loops
            return self._prefetch.insert(function, tile, summing)
        return function

    def _run(self) -> None:
        blocks = self._blocks
        if tile := self._annotated_tile(blocks):
            self._compute_in_tiles(blocks, tile)
            return
        self._inline(blocks)
        blocks = self._widen_reductions(self._split_groups(blocks))
        products = [block for block in blocks if self._is_sum_of_products(block)]
        reductions = [block for block in blocks if not block.is_injective()]
        tiled = self._tile(products[0]) if len(products) == len(reductions) == 1 else []
        for block in reductions:
            if block.name not in self._kept and is_pool_in_steps(self._schedule, block, self._reads(block)):
                tiled += self._pool(block)
        for block in blocks:
            if block.name not in tiled and block.name not in self._kept:
                (self._parallelize if block.is_injective() else self._reduce)(block)

    def _split_groups(self, blocks: list[Any]) -> list[Any]:
        """Return the blocks, with those of a grouped convolution over groups and the members of a group."""
        for block in filter(self._is_sum_of_products, blocks):
            groups = Groups.find(block, self._reads(block), constants=self._constant_reads(block))
            if groups is not None:
                place = self._parameter(groups.weights)
                self.packings[place], self._constants = groups.packing, self._constants - {place}
                self._schedule = groups.split(self._schedule, block)
                return list(normalize_prim_func(self._schedule))
        return blocks

    def _widen_reductions(self, blocks: list[Any]) -> list[Any]:
        """Return the blocks, with reductions of neighbours that no vector divides over a multiple of a vector's."""
        found = [block for block in blocks if not block.is_injective() and not self._is_sum_of_products(block)]
        found = [block for block in found if is_widened(self._schedule, block, self._reads(block), lanes=self._lanes)]
        if not found:
            return blocks
        self._widened = [block.name for block in found]
        function = widen_reductions(self._schedule.mod["main"], lanes=self._lanes, names=self._widened)
        self._schedule = s_tir.Schedule(function)
        return list(normalize_prim_func(self._schedule))

    def _annotated_tile(self, blocks: list[Any]) -> list[int]:
        """Return the size of a tile along the axes of the output, empty if the function does not state it."""
        annotations = [self._schedule.get(block.block_rv).annotations for block in blocks]
        return [int(size) for notes in annotations[:1] for size in notes.get(TILE, ())]

    def _compute_in_tiles(self, blocks: list[Any], tile: list[int]) -> None:
        """Compute the whole function for one tile and one vector of channels at a time."""
        self._can_overlap = False  # a stage reads what the stage before computed for the tile of the same number
        schedule = self._schedule
        stages = [block for block in blocks[:-1] if TILE in schedule.get(block.block_rv).annotations]
        for block in blocks[:-1]:
            if block not in stages:
                schedule.compute_inline(block.block_rv)
        *loops, channels = schedule.get_loops(blocks[-1].block_rv)
        extents = [int(extent) for extent in schedule.get(blocks[-1].block_rv).writes[0].source.shape[:-1]]
        sizes = [size for extent, size in zip(extents, tile, strict=True) if extent > 1]  # others have no loop
        pairs = [schedule.split(loop, [None, size]) for loop, size in zip(loops, sizes, strict=True)]
        lanes = dividing_lanes(int(schedule.get(channels).extent), self._lanes)
        channels, lane = schedule.split(channels, [None, lanes])
        outer, inner = [first for first, _ in pairs], [second for _, second in pairs]
        schedule.reorder(*outer, channels, *inner, lane)
        fused = schedule.fuse(*outer, channels)
        # The stages of one tile are in allocated memory, which TVM allocates once for all tiles of a chunk.
        chunk, fused = schedule.split(
            fused,
            [chunk_count(int(schedule.get(fused).extent), self._registers.threads), None],
            preserve_unit_iters=True,
        )
        schedule.parallel(chunk)
        unroll_tile(schedule, [*inner, lane])
        for block in reversed(stages):
            schedule.compute_at(block.block_rv, fused)
            unroll_tile(schedule, list(schedule.get_loops(block.block_rv))[2:])

    def _inline(self, blocks: list[Any]) -> None:
        """Inline elementwise blocks into the elementwise blocks that read them, and plain copies into all readers.

        The padding of a convolution that has none is a copy.
        """
        elementwise = {block.name for block in blocks if block.is_injective() and block.name not in self._kept}
        for block in [block for block in blocks if block.is_injective()]:
            readers = self._schedule.get_consumers(block.block_rv)
            if readers and (self._is_copy(block) or self._is_inlined(block, readers, elementwise=elementwise)):
                try:
                    self._schedule.compute_inline(block.block_rv)
                except s_tir.schedule.ScheduleError:
                    continue  # TVM refuses, for example, a block that computes an output
                blocks.remove(block)

    def _is_inlined(self, block: Any, readers: list[Any], *, elementwise: set[str]) -> bool:
        """Return True if a block is cheap, its readers are elementwise, and it does not make them long."""
        statement, others = self._schedule.get(block.block_rv), [self._schedule.get(reader) for reader in readers]
        uses = max(count_reads(other.body, statement.writes[0].source) for other in others)
        is_short = uses <= 1 or uses * count_reads(statement.body) <= MOST_READS
        are_elementwise = all(other.name_hint in elementwise for other in others)
        return is_short and are_elementwise and self._is_cheap(block, readers)

    def _is_cheap(self, block: Any, readers: list[Any]) -> bool:
        """Return False for polynomials that would be computed for every element of a larger block, or that are long."""
        bindings = count_bindings(self._schedule.get(block.block_rv))
        sizes = [
            math.prod(int(self._schedule.get(loop).extent) for loop in self._schedule.get_loops(reader))
            for reader in readers
        ]
        return not bindings or (bindings < MOST_BINDINGS and max(sizes) <= math.prod(block.dom()))

    def _is_copy(self, block: Any) -> bool:
        """Return True if a block stores what it reads, at the same indices."""
        store = self._schedule.get(block.block_rv).body
        value = getattr(store, "value", None)
        return isinstance(value, tvm.ir.TensorLoad) and tvm_ffi.structural_equal(value.indices, store.indices)

    def _is_sum_of_products(self, block: Any) -> bool:
        return not block.is_injective() and len(self._reads(block)) == 2

    def _reads(self, block: Any) -> list[Access]:
        """Return what a block reads, without its own sum and what it reads beside the factors of products."""
        statement = self._schedule.get(block.block_rv)
        own, beside = statement.writes[0].source, statement.annotations.get(OFFSETS)
        accesses = [Access(region, place) for place, region in enumerate(statement.reads)]
        return [access for access in accesses if not access.buffer.same_as(own) and access.buffer.name != beside]

    def _parallelize(self, block: Any) -> None:
        """Schedule an elementwise block: a loop over chunks for threads, and vectors if they fit."""
        schedule, loops = self._schedule, list(self._schedule.get_loops(block.block_rv))
        if not loops:
            return
        is_plain = len(loops) == len(block.iters)
        parts = Parts.find(schedule.get(block.block_rv), lanes=self._lanes) if is_plain and len(loops) > 1 else None
        if is_plain and (parts or not is_uniform(schedule, block)):
            outer, count, is_one = *self._vectorize_last(block, loops, parts), False
        else:
            size, uniform = math.prod(block.dom()), uniform_lanes(schedule, block, self._lanes) if is_plain else 0
            lanes = uniform or largest_divisor(size, self._lanes)
            outer, count = schedule.fuse(*loops), size // lanes
            # TVM does not see that 5 to 7 elements that go on in the next row are neighbours; LLVM sees single ones.
            is_odd = lanes > 1 and (lanes < MIN_LANES or self._lanes % lanes > 0)
            if is_odd and MIN_LANES <= self._lanes <= size and is_plain and can_be_flat(self._schedule, block):
                lanes, count = self._lanes, part_count(size, self._lanes)
                self._flat.append(block.name)
            if lanes >= MIN_LANES:
                outer, vector = schedule.split(outer, [None, lanes])
                schedule.vectorize(vector)
            is_one = uniform > 0 and len(loops) > 1 and block.name not in self._flat  # then TVM sees neighbours
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            count = chunk_count(count, self._registers.threads)
            schedule.parallel(outer if is_one else schedule.split(outer, [count, None])[0])

    def _vectorize_last(self, block: Any, loops: list[Any], parts: Parts | None) -> tuple[Any, int]:
        """Schedule the last axis of a block; return the loops around vectors or tiles as one loop, and its size.

        Padding or a transpose would differ between the elements of a vector that goes on in the next row.

        Args:
            block: The block.
            loops: Its loops.
            parts: The parts of the last axis, which are computed one by one unless they read scattered elements.
        """
        schedule, last = self._schedule, block.iters[-1]
        *outer, loop = loops
        may_overlap = can_be_computed_twice(schedule, block.block_rv)
        lanes = (vector_lanes if may_overlap else dividing_lanes)(last.dom, self._lanes)
        scattered = [access for access in self._reads(block) if access.has(last) and not access.is_contiguous(last)]
        place = contiguous_place(block, scattered, lanes=self._lanes) if scattered else None
        if (group := repeats(schedule.get(block.block_rv))) > 1:
            loop, repeated = schedule.split(loop, [None, group])
            schedule.unroll(repeated)
        elif parts is not None and not scattered:
            self._parts.append((parts, loop))
        elif lanes >= MIN_LANES and not scattered:
            loop, vector = schedule.split(loop, [None, lanes])
            schedule.vectorize(vector)
        elif lanes >= MIN_LANES and place is not None:
            return compute_in_tiles(schedule, block, place=place, lanes=self._lanes)
        elif last.dom < MIN_LANES:
            schedule.unroll(loop)
        count = math.prod(axis.dom for axis in block.iters[:-1])
        return (schedule.fuse(*outer), count) if outer else (loop, int(schedule.get(loop).extent))

    def _pool(self, block: Any) -> list[str]:
        """Schedule a pool in steps, and its padding; return the names of the scheduled blocks."""
        schedule = self._schedule.copy()
        try:
            padding = pool_images(schedule, block, threads=self._registers.threads)
        except s_tir.schedule.ScheduleError:
            return []  # TVM refuses, for example, a block that others read in another order
        self._schedule = schedule
        for each in padding:
            parts = Parts.find(schedule.get(each), lanes=self._lanes)
            loop = schedule.get_loops(each)[-1]
            copied = schedule.get(loop)
            # Of a line that the pool does not read to its end, the copy is shorter, and its parts are others.
            if parts and int(copied.extent) == parts.bounds[-1] and copied.body.predicate == 1:
                self._parts.append((parts, loop))
        return [block.name, *(schedule.get(each).name_hint for each in padding)]

    def _reduce(self, block: Any) -> None:
        is_widened = block.name in self._widened
        self._schedule = schedule_reduction(
            self._schedule, block, self._reads(block), lanes=self._lanes, is_contiguous=is_widened
        )

    def _tile(self, block: Any) -> list[str]:
        """Schedule a sum of products and the block that reads it; return the names of the scheduled blocks."""
        reads = self._reads(block)
        tiling, steps = self._choose_tiling(block, reads)
        if tiling is None:
            return self._tile_shared(block, reads)
        packing = tiling.packing
        if packing is not None:
            place = self._parameter(tiling.operand)
            self.packings[place] = packing
            if steps:
                self._prefetch = Prefetch.of(tiling, place=place, steps=steps)
            read = ("read", tiling.operand.place)
            # Else TVM refuses a last part that is not full, as it does not know what the constants are padded with.
            self._schedule.transform_layout(block.block_rv, read, packing.index, assume_injective_transform=True)
        reader = reader_of(self._schedule, block)
        self._move_axis_last(block, tiling.vector)
        self._compute_tiles(block, tiling, reader=reader)
        return [block.name, self._schedule.get(reader).name_hint]

    def _choose_tiling(self, block: Any, reads: list[Access]) -> tuple[Tiling | None, int]:
        """Return the best tiling, and the steps between two prefetches of weights; 0 for none."""
        constants, settings = self._constant_reads(block), self._settings
        annotations = self._schedule.get(block.block_rv).annotations
        # With all registers taken, LLVM moves every sum at every step: 16 rows took 2.2 times as long with float16.
        registers = replace(self._registers, number=self._registers.number - int(annotations.get(WIDENED, 0)))
        choose = partial(
            Tiling.choose,
            block,
            reads,
            registers=registers,
            constants=constants,
            lanes=self._sum_lanes(block),
            step_elements=int(annotations.get(STEP_ELEMENTS, 1)),
        )
        has_prefetch = registers.has_prefetch and UNROLLED not in annotations  # words are read in other steps

        def steps_of(tiling: Tiling | None) -> int:
            if tiling is None or not has_prefetch or not self._keeps_weights(tiling):
                return 0
            return prefetch_steps(tiling, settings.prefetch, by_default=registers.gains_by_prefetch)

        narrow = choose(settings=replace(settings, vectors=1))
        steps = steps_of(narrow)
        if narrow and steps and settings.vectors is None:
            settings = replace(settings, vectors=most_vectors(narrow, settings.prefetch))
        tiling = choose(settings=settings, prefetch_steps=steps)
        return tiling, steps_of(tiling)

    def _sum_lanes(self, block: Any) -> int:
        """Return the elements of a vector of sums; results of 8 bits have sums of 32."""
        is_wide = WIDE_SUMS in self._schedule.get(block.block_rv).annotations
        return self._registers.bits // SUM_BITS if is_wide else self._lanes

    def _keeps_weights(self, tiling: Tiling) -> bool:
        keep_weights = self._settings.keep_weights
        return tiling.keep_weights if keep_weights is None else keep_weights

    def _tile_shared(self, block: Any, reads: list[Access]) -> list[str]:
        """Schedule a sum of products whose operands share the axis of the vectors, as depthwise convolutions do."""
        window = OutputWindow.choose(
            block, reads, lanes=self._sum_lanes(block), settings=self._settings, threads=self._registers.threads
        )
        if window is None:
            return []
        *_, row, _ = [axis.dom for axis in block.iters if axis.kind == "S"]
        names = window.compute(self._schedule, block)
        if not window.is_whole_line(row):  # a tile that begins earlier must find its data in its own window
            self._left_out = names
        return names

    def _constant_reads(self, block: Any) -> list[Access]:
        """Return the reads of parameters that are constant in every call; their layout can be changed."""
        return [access for access in self._reads(block) if self._parameter(access) in self._constants]

    def _parameter(self, access: Access) -> int:
        """Return the place of the parameter that is accessed, -1 for an intermediate buffer."""
        params = self._schedule.mod["main"].params
        return next((place for place, param in enumerate(params) if param.same_as(access.buffer)), -1)

    def _move_axis_last(self, block: Any, axis: Any) -> None:
        """Store the sums with an axis as their last dimension, so that the sums of one vector are contiguous."""
        write = Access(self._schedule.get(block.block_rv).writes[0], 0)
        dimension = write.dimension(axis)
        assert dimension is not None
        self._schedule.transform_layout(
            block.block_rv,
            ("write", 0),
            lambda *indices: [*indices[:dimension], *indices[dimension + 1 :], indices[dimension]],
        )

    def _compute_tiles(self, block: Any, tiling: Tiling, *, reader: Any) -> None:
        """Compute the sums of one tile at a time, directly before the block that reads them."""
        schedule = self._schedule
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        loops = dict(zip(map(id, spatial), loops_of(schedule, reader, spatial), strict=True))
        row = stripe = None
        blocks, vectors, lane = schedule.split(loops[id(tiling.vector)], [None, tiling.vectors, tiling.lanes])
        rest = [blocks if axis is tiling.vector else loops[id(axis)] for axis in spatial if axis is not tiling.row]
        inner = [vectors, lane]
        if tiling.row is not None:
            stripe, row = schedule.split(loops[id(tiling.row)], [None, tiling.rows])
            inner = [vectors, row, lane]
        outer = self._order_tiles(tiling, rest, blocks=blocks, stripe=stripe)
        schedule.reorder(*outer, *inner)
        tiles = schedule.fuse(*outer)
        schedule.compute_at(block.block_rv, tiles, preserve_unit_loops=True)
        summing, depth = self._order_sum(block, tiling)
        # The reader writes in the network's own layout, so its vectors are along the last axis of that layout.
        if tiling.row is not None and spatial[-1] is tiling.row:
            schedule.reorder(lane, row)
            lane = row
        else:
            for loop in inner[:-1]:
                schedule.unroll(loop)
        if int(schedule.get(lane).extent) >= MIN_LANES:
            schedule.vectorize(lane)
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(tiles)
        initial = schedule.get_loops(schedule.decompose_reduction(block.block_rv, summing[0]))
        schedule.vectorize(initial[-1])
        for loop in initial[-1 - depth : -1]:
            schedule.unroll(loop)
        if self._prefetch:
            self._prefetch_loops = [schedule.get(loop) for loop in (tiles, *summing[:-1])]

    def _order_tiles(self, tiling: Tiling, loops: list[Any], *, blocks: Any, stripe: Any) -> list[Any]:
        """Return the loops over tiles, outermost first; ``stripe`` is the one along rows, if there is one."""
        stripes = [] if stripe is None else [stripe]
        others = [loop for loop in loops if loop is not blocks]
        overlaps = tiling.packing is not None and tiling.packing.repeats
        if overlaps and self._settings.keep_weights is None and tiling.operand.bytes < LEAST_BYTES:
            # Threads that shared the columns would write the same lines of the cache where tiles overlap.
            return [*others, *stripes, blocks]
        if self._keeps_weights(tiling):
            return [blocks, *others, *stripes]
        if self._settings.keep_weights is False and tiling.is_product:
            return [*others, *stripes, blocks]
        return [*loops, *stripes]  # the data of one line of the output stay in the cache

    def _order_sum(self, block: Any, tiling: Tiling) -> tuple[list[Any], int]:
        """Put the summing loops around the loops of one tile, and unroll these.

        Returns:
            The summing loops, and the number of loops of a tile around its lanes.
        """
        schedule, axes = self._schedule, list(block.iters)
        loops = dict(zip(map(id, axes), list(schedule.get_loops(block.block_rv))[-len(axes) :], strict=True))
        vectors, lane = schedule.split(loops[id(tiling.vector)], [None, tiling.lanes])
        tile = [vectors] if tiling.row is None else [loops[id(tiling.row)], vectors]
        reduced = [loops[id(axis)] for axis in axes if axis.kind != "S"]
        if self._prefetch:
            reduced[-1:] = schedule.split(reduced[-1], [None, self._prefetch.steps])
        units = [loops[id(axis)] for axis in axes if axis.kind == "S" and axis not in (tiling.vector, tiling.row)]
        schedule.reorder(*units, *reduced, *tile, lane)
        # Unrolled, because only then LLVM holds the sums of a tile in registers.
        for loop in tile:
            schedule.unroll(loop)
        if UNROLLED in schedule.get(block.block_rv).annotations:
            schedule.unroll(reduced[-1])
        schedule.vectorize(lane)
        return reduced, len(tile)


def _output_bits(function: Any) -> int:
    """Return the bits of an element of the function's last parameter, its output; a boolean takes a byte."""
    return element_bits(function.params[-1].dtype) if len(function.params) else 8
