"""A schedule for CPUs. TVM's default pipeline leaves every function there as the plain loops of its definition.

A sum of products is computed in tiles that stay in vector registers. A tile has vectors along one axis of the output
and rows along another; every value of the other operand is multiplied with a whole vector (Georganas et al., Anatomy of
high-performance deep learning convolutions on SIMD architectures, SC18). Weights get a layout that fits the vectors, at
compile time. All other loops run on all threads, and are vectorised if their innermost axis allows it. Functions whose
sizes are open until they run are scheduled by ``_OpenScheduler``.

Imports only TVM and numpy, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.sym import detect_linear_equation
from tvm.target.codegen import llvm_get_vector_width, target_has_features

MIN_PARALLEL_ELEMENTS = 4096
"""Size from which a loop runs on several threads; starting them takes longer than a smaller loop."""

CHUNKS = 64
"""Most parts of a loop over elements or small tiles that threads share."""

MIN_LANES = 4

LOAD_OF_WEIGHTS = 0.3
"""Time to load a vector of weights, as a multiple of that of a multiplication."""

STREAM_OF_WEIGHTS = 2
"""Time in which the second cache delivers a vector of weights, as a multiple of that of a multiplication."""

SUMS_IN_FLIGHT = 8
"""Vectors of sums that keep a processor busy, which starts two additions at a time and ends them four cycles later."""

MAX_STACK_BYTES = 1024
"""Size from which TVM allocates a buffer instead of putting it on the stack, where LLVM keeps it in registers only.

Source: ``kMaxStackAlloca`` in ``tvm/runtime/device_api.h``.
"""

COPIES_OF_SUMS = 16
"""Time to store sums in allocated memory and load them, as a multiple of that of one step."""

WAYS, WAY_BYTES = 8, 4096
"""The nearest cache of most processors holds eight lines of those whose addresses differ by multiples of 4 KiB.

With 14 rows of 1,024 channels a product takes twice the time.
"""

MIN_WINDOW_AXES, MAX_UNROLLED_STEPS = 3, 49
"""Axes of a depthwise convolution's output, and the largest kernel, 7 by 7, whose loops are unrolled."""

SUMS_SHARE = 3
"""Vectors of sums in a tile of a depthwise convolution, as part of those in other tiles; weights take registers too."""

WINDOW_BYTES, BYTE = 30 * 1024, 8
"""Size of the data for a window of a depthwise convolution; the nearest cache of most processors has 32 KiB."""

MIN_CHUNKS = 16
"""Number of parts of a loop that a few threads share evenly."""

REMAINDER_COST = 1.2
"""Time of a tile whose rows may be missing, as a multiple of that of another; measured on widths from 19 to 150."""

OPEN_ROWS, OPEN_VECTORS = 6, 2
"""Most rows of a tile and most vectors of a row where sizes are open; twelve sums fit into sixteen registers."""

TILE = "passsearch.tile"
"""Annotation of a block that is computed for one tile at a time: the size of a tile along the axes of the output."""

MOST_BINDINGS = 9
"""Variables of ``ExpandMath`` in a block that is still inlined, those of three functions. LLVM's code generator writes
out every use of such a variable: for a chain of three ``exp`` it needs 0.1 s, for four 1.6 s and for five 45 s."""

PACKED = "_packed"
"""End of the name of a function that reads weights in another layout."""


def ScheduleCPU(  # noqa: N802
    rows: int | None = None,
    vectors: int | None = None,
    keep_weights: bool | None = None,
    pack: bool = True,
    kernels: Mapping[str, Mapping[str, int | bool | None]] | None = None,
) -> Any:
    """Return a pass that schedules every function without a schedule; for other targets than CPUs it changes nothing.

    Args:
        rows: Most vectors of sums in one tile, which must fit into registers; ``None`` to leave a few of these free.
        vectors: Most vectors in one row of a tile; ``None`` for no limit of its own.
        keep_weights: Compute all sums of one block of weights before the next block, so that it stays in the cache, or,
            if false, all sums of one line of data before the next line; for a product of matrices, of one tile's rows.
            ``None`` to keep weights where they are larger than the data.
        pack: Change the layout of weights, so that the values of one vector are contiguous.
        kernels: Other values of the first three arguments for single functions, by the name of the function.

    Raises:
        ValueError: ``kernels`` names a function that the module does not have, or another parameter.
    """

    def schedule(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "cpu" not in target.keys:
            return module
        # FuseTIR makes functions of the groups of FuseOps. After the schedule it would drop it (``fuse_tir.cc``).
        module = relax.transform.FuseTIR()(module)
        registers = _registers(target)
        default = _Settings(rows, vectors, keep_weights)
        settings = _kernel_settings(module, default, kernels or {}, rows=registers.most_sums)
        packed: dict[str, _PackedFunction] = {}
        constants = _constant_places(module) if pack else {}
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not _is_scheduled(function):
                places = constants.get(name.name_hint, frozenset())
                own = settings[name.name_hint]
                scheduler = _Scheduler(function, registers=registers, settings=own, constants=places)
                result = scheduler.run()
                if scheduler.packings:
                    packed[name.name_hint] = _PackedFunction(result, scheduler.packings)
                else:
                    module.update_func(name, result)
        return _replace_packed(module, packed) if packed else module

    return tvm.transform.module_pass(schedule, opt_level=0, name="ScheduleCPU")


@dataclass(frozen=True)
class _Registers:
    """The vector registers of a processor.

    Attributes:
        bits: Size of a register.
        number: Number of registers; sums, weights and one value of the data must fit into them.
        most_sums: Most vectors of sums in a tile where nothing else is asked for.
        load_of_data: Time to load a value of the data into all lanes, as a multiple of that of a multiplication. Data
            stay in the nearest cache, and with AVX-512 the multiplication loads them itself.
    """

    bits: int
    number: int
    most_sums: int
    load_of_data: float


X86_REGISTERS = {
    "avx512f": _Registers(512, number=32, most_sums=24, load_of_data=0.025),
    "avx": _Registers(256, number=16, most_sums=14, load_of_data=0.25),
    "sse": _Registers(128, number=16, most_sums=14, load_of_data=0.25),
}
"""Registers of x86 processors by the feature that brings them, the largest first."""


def _registers(target: Any) -> _Registers:
    # TVM 0.27 answers 512 for every x86 processor. Tiles for vectors of twice the size do not fit into the registers.
    if target_has_features("sse", target):
        return next(each for name, each in X86_REGISTERS.items() if target_has_features(name, target))
    return _Registers(max(int(llvm_get_vector_width(target)), 128), number=16, most_sums=14, load_of_data=0.025)


@dataclass(frozen=True)
class _Settings:
    """How one function is tiled; see ``ScheduleCPU``."""

    rows: int | None
    vectors: int | None
    keep_weights: bool | None


def _kernel_settings(
    module: Any, default: _Settings, kernels: Mapping[str, Mapping[str, int | bool | None]], *, rows: int
) -> dict[str, _Settings]:
    """Return the settings of every function, with ``rows`` where none are set."""
    names = [name.name_hint for name, _ in module.functions_items()]
    unknown = [name for name in kernels if name not in names]
    if unknown:
        raise ValueError(f"no function `{unknown[0]}` to schedule")
    try:
        settings = {name: _Settings(**{**asdict(default), **kernels.get(name, {})}) for name in names}
    except TypeError as error:
        raise ValueError(f"a kernel takes rows, vectors and keep_weights; got {dict(kernels)}") from error
    return {name: replace(setting, rows=setting.rows or rows) for name, setting in settings.items()}


@dataclass(frozen=True)
class _Packing:
    """A layout: one dimension of an array is split; the outer part becomes the first dimension, the inner the last.

    Attributes:
        dimension: The dimension to split.
        lanes: Size of its inner part.
    """

    dimension: int
    lanes: int

    def index(self, *indices: Any) -> list[Any]:
        """Return the new indices of an element."""
        split = indices[self.dimension]
        others = [index for place, index in enumerate(indices) if place != self.dimension]
        return [split // self.lanes, *others, split % self.lanes]

    def array(self, array: Any) -> Any:
        """Return the array in this layout."""
        moved = np.moveaxis(array, self.dimension, 0)
        parts = moved.reshape(-1, self.lanes, *moved.shape[1:])
        return np.ascontiguousarray(np.moveaxis(parts, 1, -1))


class _Access:
    """The indices with which a block reads or writes one buffer."""

    def __init__(self, region: Any, place: int) -> None:
        self.buffer, self.place = region.source, place
        self._indices = [bounds.min for bounds in region.region]

    @property
    def size(self) -> int:
        """Number of elements of the buffer."""
        return math.prod(int(size) for size in self.buffer.shape)

    def has(self, axis: Any) -> bool:
        """Return True if an index depends on an axis of the block."""
        return any(_mentions(index, axis.var) for index in self._indices)

    def dimension(self, axis: Any) -> int | None:
        """Return the dimension whose index is an axis alone, ``None`` if there is no such dimension."""
        places = (place for place, index in enumerate(self._indices) if index.same_as(axis.var))
        return next(places, None)

    def span(self, axis: Any, reduced: list[Any]) -> Callable[[int], int]:
        """Return the function from a number of elements along an axis of the output to those that are read for them."""
        variables = [axis.var, *(other.var for other in reduced)]
        for index in self._indices:
            if _mentions(index, axis.var) and (factors := detect_linear_equation(index, variables)):
                step, *steps = [int(factor) for factor in factors[:-1]]
                rest = sum(factor * (other.dom - 1) for factor, other in zip(steps, reduced, strict=True))
                return lambda size: step * (size - 1) + rest + 1
        return lambda size: size

    def stride_bytes(self, axis: Any) -> int:
        """Return the distance of two neighbours along an axis."""
        steps, size = 0, _element_bits(self.buffer.dtype) // BYTE
        for index, extent in zip(reversed(self._indices), reversed(self.buffer.shape), strict=True):
            factors = detect_linear_equation(index, [axis.var]) if _mentions(index, axis.var) else None
            steps += int(factors[0]) * size if factors else 0
            size *= int(extent)
        return steps

    def is_contiguous(self, axis: Any) -> bool:
        """Return True if only the innermost index depends on an axis."""
        if not self._indices:  # a single number
            return False
        *outer, last = self._indices
        return _mentions(last, axis.var) and not any(_mentions(index, axis.var) for index in outer)


class _Scheduler:
    """Schedules one function."""

    def __init__(self, function: Any, *, registers: _Registers, settings: _Settings, constants: frozenset[int]) -> None:
        self._function, self._registers, self._settings, self._constants = function, registers, settings, constants
        self._lanes = registers.bits // _bits(function)
        self._schedule = s_tir.Schedule(function)
        self.packings: dict[int, _Packing] = {}

    def run(self) -> Any:
        """Return the function with its schedule, or the function itself if its loops are of an unknown kind."""
        blocks = normalize_prim_func(self._schedule)
        if blocks is None:
            return self._function
        if not all(isinstance(size, int) for block in blocks for size in block.dom()):
            return _OpenScheduler(self._function, registers=self._registers).run()
        if tile := self._annotated_tile(blocks):
            self._compute_in_tiles(blocks, tile)
            return self._schedule.mod["main"].with_attr("tirx.is_scheduled", True)
        self._inline(blocks)
        # The sizes are static from here on: a tile needs divisors of them.
        products = [block for block in blocks if self._is_sum_of_products(block)]
        reductions = [block for block in blocks if not block.is_injective()]
        tiled = self._tile(products[0]) if len(products) == len(reductions) == 1 else []
        for block in blocks:
            if block.name not in tiled:
                (self._parallelize if block.is_injective() else self._reduce)(block)
        return self._schedule.mod["main"].with_attr("tirx.is_scheduled", True)

    def _annotated_tile(self, blocks: list[Any]) -> list[int]:
        """Return the size of a tile along the axes of the output, empty if the function does not state it."""
        annotations = [self._schedule.get(block.block_rv).annotations for block in blocks]
        return [int(size) for notes in annotations[:1] for size in notes.get(TILE, ())]

    def _compute_in_tiles(self, blocks: list[Any], tile: list[int]) -> None:
        """Compute the whole function for one tile and one vector of channels at a time."""
        schedule = self._schedule
        stages = [block for block in blocks[:-1] if TILE in schedule.get(block.block_rv).annotations]
        for block in blocks[:-1]:
            if block not in stages:
                schedule.compute_inline(block.block_rv)
        *loops, channels = schedule.get_loops(blocks[-1].block_rv)
        extents = [int(extent) for extent in schedule.get(blocks[-1].block_rv).writes[0].source.shape[:-1]]
        sizes = [size for extent, size in zip(extents, tile, strict=True) if extent > 1]  # others have no loop
        pairs = [schedule.split(loop, [None, size]) for loop, size in zip(loops, sizes, strict=True)]
        lanes = _divisor(int(schedule.get(channels).extent), self._lanes)
        channels, lane = schedule.split(channels, [None, lanes])
        outer, inner = [first for first, _ in pairs], [second for _, second in pairs]
        schedule.reorder(*outer, channels, *inner, lane)
        fused = schedule.fuse(*outer, channels)
        # The stages of one tile are in allocated memory, which TVM allocates once for all tiles of a chunk.
        chunk, fused = schedule.split(fused, [_chunks(int(schedule.get(fused).extent)), None], preserve_unit_iters=True)
        schedule.parallel(chunk)
        self._unroll([*inner, lane])
        for block in reversed(stages):
            schedule.compute_at(block.block_rv, fused)
            self._unroll(list(schedule.get_loops(block.block_rv))[2:])

    def _unroll(self, loops: list[Any]) -> None:
        """Vectorise the innermost of these loops and unroll the others, so that each value gets a register."""
        *outer, lane = loops
        for loop in outer:
            self._schedule.unroll(loop)
        self._schedule.vectorize(lane)

    def _inline(self, blocks: list[Any]) -> None:
        """Inline elementwise blocks into the elementwise blocks that read them, and plain copies into all readers.

        The padding of a convolution that has none is a copy.
        """
        elementwise = {block.name for block in blocks if block.is_injective()}
        for block in [block for block in blocks if block.is_injective()]:
            readers = self._schedule.get_consumers(block.block_rv)
            are_elementwise = all(self._schedule.get(reader).name_hint in elementwise for reader in readers)
            if readers and (self._is_copy(block) or (are_elementwise and self._is_cheap(block, readers))):
                try:
                    self._schedule.compute_inline(block.block_rv)
                except s_tir.schedule.ScheduleError:
                    continue  # TVM refuses, for example, a block that computes an output
                blocks.remove(block)

    def _is_cheap(self, block: Any, readers: list[Any]) -> bool:
        """Return False for polynomials that would be computed for every element of a larger block, or that are long."""
        bindings = _bindings(self._schedule.get(block.block_rv))
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

    def _reads(self, block: Any) -> list[_Access]:
        """Return what a block reads, without its own sum."""
        statement = self._schedule.get(block.block_rv)
        own = statement.writes[0].source
        accesses = [_Access(region, place) for place, region in enumerate(statement.reads)]
        return [access for access in accesses if not access.buffer.same_as(own)]

    def _parallelize(self, block: Any) -> None:
        """Schedule an elementwise block: a loop over chunks for threads, and vectors if they fit."""
        schedule, loops = self._schedule, list(self._schedule.get_loops(block.block_rv))
        if not loops:
            return
        if len(loops) == len(block.iters) and not self._is_uniform(block):
            outer, count = self._vectorize_last(block, loops)
        else:
            size = math.prod(block.dom())
            lanes = _divisor(size, self._lanes)
            outer, count = schedule.fuse(*loops), size // lanes
            if lanes >= MIN_LANES:
                outer, vector = schedule.split(outer, [None, lanes])
                schedule.vectorize(vector)
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            chunk, _ = schedule.split(outer, [_chunks(count), None])
            schedule.parallel(chunk)

    def _vectorize_last(self, block: Any, loops: list[Any]) -> tuple[Any, int]:
        """Schedule the last axis of a block, and return the other loops as one loop, and its size.

        Padding or a transpose would differ between the elements of a vector that goes on in the next row.
        """
        schedule, last = self._schedule, block.iters[-1]
        *outer, loop = loops
        lanes = _divisor(last.dom, self._lanes)
        are_contiguous = all(access.is_contiguous(last) or not access.has(last) for access in self._reads(block))
        if lanes >= MIN_LANES and are_contiguous:
            loop, vector = schedule.split(loop, [None, lanes])
            schedule.vectorize(vector)
        elif last.dom < MIN_LANES:
            schedule.unroll(loop)
        count = math.prod(axis.dom for axis in block.iters[:-1])
        return (schedule.fuse(*outer), count) if outer else (loop, int(schedule.get(loop).extent))

    def _is_uniform(self, block: Any) -> bool:
        """Return True if a block reads all buffers at the indices that it writes."""
        statement = self._schedule.get(block.block_rv)
        written = [bounds.min for bounds in statement.writes[0].region]
        return all(
            tvm_ffi.structural_equal([bounds.min for bounds in read.region], written) for read in statement.reads
        )

    def _reduce(self, block: Any) -> None:
        """Schedule a reduction on all threads, in vectors if its operands are contiguous along the last axis."""
        schedule, loops = self._schedule, self._schedule.get_loops(block.block_rv)
        if len(loops) != len(block.iters):
            return
        spatial = [(loop, axis) for loop, axis in zip(loops, block.iters, strict=True) if axis.kind == "S"]
        reduced = [loop for loop, axis in zip(loops, block.iters, strict=True) if axis.kind != "S"]
        if not spatial:
            return
        outer, last, vector = [loop for loop, _ in spatial], spatial[-1][1], None
        lanes = _divisor(last.dom, self._lanes)
        if lanes >= MIN_LANES and all(access.is_contiguous(last) for access in self._reads(block)):
            rest, vector = schedule.split(outer[-1], [None, lanes])
            outer = [*outer[:-1], rest]
        schedule.reorder(*outer, *reduced, *([vector] if vector is not None else []))
        fused = schedule.fuse(*outer)
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(fused)
        if vector is not None:
            schedule.vectorize(vector)
            # The initial value of the sum gets a block of its own, with vectors as well.
            initial = schedule.decompose_reduction(block.block_rv, reduced[0])
            schedule.vectorize(schedule.get_loops(initial)[-1])

    def _tile(self, block: Any) -> list[str]:
        """Schedule a sum of products and the block that reads it; return the names of the scheduled blocks."""
        reads, constants = self._reads(block), self._constant_reads(block)
        tiling = _Tiling.choose(
            block, reads, lanes=self._lanes, registers=self._registers, settings=self._settings, constants=constants
        )
        if tiling is None:
            return self._tile_shared(block, reads)
        packing = tiling.packing
        if packing is not None:
            self.packings[self._parameter(tiling.operand)] = packing
            self._schedule.transform_layout(block.block_rv, ("read", tiling.operand.place), packing.index)
        reader = self._reader(block)
        self._move_axis_last(block, tiling.vector)
        self._compute_tiles(block, tiling, reader=reader)
        return [block.name, self._schedule.get(reader).name_hint]

    def _tile_shared(self, block: Any, reads: list[_Access]) -> list[str]:
        """Schedule a sum of products whose operands share the axis of the vectors, as depthwise convolutions do."""
        window = _Window.choose(block, reads, lanes=self._lanes, settings=self._settings)
        return self._compute_windows(block, window) if window else []

    def _compute_windows(self, block: Any, window: _Window) -> list[str]:
        """Compute one window of the output at a time, directly after the data that it needs; return all block names."""
        schedule, reader = self._schedule, self._reader(block)
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        *rest, lines, row, channels = self._loops_of(reader, spatial)
        blocks, vector, lane = schedule.split(channels, [None, window.vectors, window.lanes])
        stripe, line = schedule.split(lines, [None, window.lines])
        column, tile, row = schedule.split(row, [None, window.tiles, window.rows])
        schedule.reorder(*rest, stripe, column, blocks, line, tile, row, vector, lane)
        windows = schedule.fuse(*rest, stripe, column, blocks)
        if math.prod(block.dom()) >= MIN_PARALLEL_ELEMENTS:
            schedule.parallel(windows)
        self._unroll([row, vector, lane])
        schedule.compute_at(block.block_rv, tile, preserve_unit_loops=True)
        copied = [producer for producer in schedule.get_producers(block.block_rv) if self._is_read_once(producer)]
        for producer in copied:
            schedule.compute_at(producer, windows)
            *_, lane = schedule.split(schedule.get_loops(producer)[-1], [None, window.lanes])
            schedule.vectorize(lane)
        self._unroll_sum(block, lanes=window.lanes)
        return [schedule.get(scheduled).name_hint for scheduled in (block.block_rv, reader, *copied)]

    def _is_read_once(self, producer: Any) -> bool:
        return len(self._schedule.get_consumers(producer)) == 1

    def _unroll_sum(self, block: Any, *, lanes: int) -> None:
        """Unroll all loops of a sum with vectors along its last axis, so that LLVM keeps it in registers throughout."""
        schedule, axes = self._schedule, list(block.iters)
        loops = list(schedule.get_loops(block.block_rv))[-len(axes) :]
        *units, row, channels = [loop for loop, axis in zip(loops, axes, strict=True) if axis.kind == "S"]
        steps = [loop for loop, axis in zip(loops, axes, strict=True) if axis.kind != "S"]
        vector, lane = schedule.split(channels, [None, lanes])
        schedule.reorder(*units, *steps, row, vector, lane)
        self._unroll([*steps, row, vector, lane])
        initial = schedule.decompose_reduction(block.block_rv, steps[0])
        self._unroll(list(schedule.get_loops(initial))[-3:])

    def _constant_reads(self, block: Any) -> list[_Access]:
        """Return the reads of parameters that are constant in every call; their layout can be changed."""
        return [access for access in self._reads(block) if self._parameter(access) in self._constants]

    def _parameter(self, access: _Access) -> int:
        """Return the place of the parameter that is accessed, -1 for an intermediate buffer."""
        params = self._schedule.mod["main"].params
        return next((place for place, param in enumerate(params) if param.same_as(access.buffer)), -1)

    def _reader(self, block: Any) -> Any:
        """Return the block that reads the sums in their own order; without one, a new block that copies them."""
        spatial = [axis.dom for axis in block.iters if axis.kind == "S"]
        readers = self._schedule.get_consumers(block.block_rv)
        if len(readers) == 1:
            sizes = [int(self._schedule.get(loop).extent) for loop in self._schedule.get_loops(readers[0])]
            if sizes == spatial:
                return readers[0]
        return self._schedule.cache_write(block.block_rv, 0, "global")

    def _loops_of(self, reader: Any, spatial: list[Any]) -> list[Any]:
        """Return a block's loops over these axes."""
        loops = list(self._schedule.get_loops(reader))
        if len(loops) == len(spatial):
            return loops
        # A copy also has loops over the buffer's dimensions of size 1; outside, they leave the others together.
        units = [loop for loop in loops if int(self._schedule.get(loop).extent) == 1]
        others = [loop for loop in loops if int(self._schedule.get(loop).extent) > 1]
        self._schedule.reorder(*units, *others)
        return others

    def _move_axis_last(self, block: Any, axis: Any) -> None:
        """Store the sums with an axis as their last dimension, so that the sums of one vector are contiguous."""
        write = _Access(self._schedule.get(block.block_rv).writes[0], 0)
        dimension = write.dimension(axis)
        assert dimension is not None
        self._schedule.transform_layout(
            block.block_rv,
            ("write", 0),
            lambda *indices: [*indices[:dimension], *indices[dimension + 1 :], indices[dimension]],
        )

    def _compute_tiles(self, block: Any, tiling: _Tiling, *, reader: Any) -> None:
        """Compute the sums of one tile at a time, directly before the block that reads them."""
        schedule = self._schedule
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        loops = dict(zip(map(id, spatial), self._loops_of(reader, spatial), strict=True))
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
        reduced, depth = self._order_sum(block, tiling)
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
        initial = schedule.get_loops(schedule.decompose_reduction(block.block_rv, reduced))
        schedule.vectorize(initial[-1])
        for loop in initial[-1 - depth : -1]:
            schedule.unroll(loop)

    def _order_tiles(self, tiling: _Tiling, loops: list[Any], *, blocks: Any, stripe: Any) -> list[Any]:
        """Return the loops over tiles, outermost first; ``stripe`` is the one along rows, if there is one."""
        keep_weights = self._settings.keep_weights
        stripes = [] if stripe is None else [stripe]
        others = [loop for loop in loops if loop is not blocks]
        if keep_weights or (keep_weights is None and tiling.keep_weights):
            return [blocks, *others, *stripes]
        if keep_weights is False and tiling.is_product:
            return [*others, *stripes, blocks]
        return [*loops, *stripes]  # the data of one line of the output stay in the cache

    def _order_sum(self, block: Any, tiling: _Tiling) -> tuple[Any, int]:
        """Put the summing loops around the loops of one tile, and unroll these.

        Returns:
            The outermost summing loop, and the number of loops of a tile around its lanes.
        """
        schedule, axes = self._schedule, list(block.iters)
        loops = dict(zip(map(id, axes), list(schedule.get_loops(block.block_rv))[-len(axes) :], strict=True))
        vectors, lane = schedule.split(loops[id(tiling.vector)], [None, tiling.lanes])
        tile = [vectors] if tiling.row is None else [loops[id(tiling.row)], vectors]
        reduced = [loops[id(axis)] for axis in axes if axis.kind != "S"]
        units = [loops[id(axis)] for axis in axes if axis.kind == "S" and axis not in (tiling.vector, tiling.row)]
        schedule.reorder(*units, *reduced, *tile, lane)
        # Unrolled, because only then LLVM holds the sums of a tile in registers.
        for loop in tile:
            schedule.unroll(loop)
        schedule.vectorize(lane)
        return reduced[0], len(tile)


class _OpenScheduler(_Scheduler):
    """Schedules one function of which some sizes are open until it runs.

    Loops over open sizes are the outer ones, on all threads. A tile of a sum of products has constant sizes: the
    operands are copied with zeros up to a multiple of the tile, and the result is copied without what is beyond the
    size. A vector along an open size has a loop of its own for the rest.
    """

    def __init__(self, function: Any, *, registers: _Registers) -> None:
        settings = _Settings(None, None, None)
        super().__init__(function, registers=registers, settings=settings, constants=frozenset())

    def run(self) -> Any:
        """Return the function with its schedule, or the function itself if TVM refuses that."""
        blocks = normalize_prim_func(self._schedule)
        assert blocks is not None
        try:
            self._inline(blocks)
            reductions = [block for block in blocks if not block.is_injective()]
            is_product = len(reductions) == 1 and self._is_sum_of_products(reductions[0])
            tiled = self._tile_open(reductions[0]) if is_product else []
            root = self._schedule.get_sblock("root")
            for block in self._schedule.get_child_blocks(root):
                if self._schedule.get(block).name_hint not in tiled:
                    self._schedule_open(block)
        except s_tir.schedule.ScheduleError:
            return self._function
        return self._schedule.mod["main"].with_attr("tirx.is_scheduled", True)

    def _is_cheap(self, block: Any, readers: list[Any]) -> bool:
        """Return False for polynomials, because the sizes do not say how often they would be computed again."""
        return bool(readers) and not _bindings(self._schedule.get(block.block_rv))

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
        lanes = self._lanes if is_open else _divisor(int(extent), self._lanes)
        if lanes < MIN_LANES or (is_open and not has_rest):
            return loop, None
        outer, vector = self._schedule.split(loop, [None, lanes])
        if is_open:
            self._schedule.annotate(outer, "pragma_loop_partition_hint", 1)
        return outer, vector

    def _is_contiguous(self, block: Any, axis: Any) -> bool:
        """Return True if a block reads and writes neighbours along an axis, or what does not depend on it."""
        statement = self._schedule.get(block)
        accesses = [_Access(region, 0) for region in (*statement.reads, *statement.writes)]
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
        self._unroll(inner)
        initial = schedule.decompose_reduction(block.block_rv, reduced[0])
        self._unroll(list(schedule.get_loops(initial))[-len(inner) :])
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
            return _divisor(axis.dom, self._lanes) if isinstance(axis.dom, int) else self._lanes

        fit = [axis for axis in single if readers[id(axis)][0].is_contiguous(axis) and lanes_of(axis) >= MIN_LANES]
        # A size that is known needs no copies.
        vector = max(fit, key=lambda axis: (isinstance(axis.dom, int), lanes_of(axis)), default=None)
        if vector is None:
            return None
        operand, lanes = readers[id(vector)][0], lanes_of(vector)
        others = [axis for axis in single if readers[id(axis)][0] is not operand]
        row = others[-1] if others else None
        rows = 1 if row is None else OPEN_ROWS if not isinstance(row.dom, int) else _divisor(row.dom, OPEN_ROWS)
        vectors = _divisor(vector.dom // lanes, OPEN_VECTORS) if isinstance(vector.dom, int) else 1
        return vector, row, (rows, vectors, lanes)


@dataclass(frozen=True)
class _Tiling:
    """The part of a sum of products that stays in registers.

    Attributes:
        vector: The axis of the output that vectors are along.
        operand: The operand that is read in vectors.
        row: The axis of the output that rows are along; the rows share the operand's vectors. ``None`` without rows.
        lanes: Elements of a vector.
        vectors: Vectors of one row.
        rows: Rows of a tile.
        packing: New layout of the operand; ``None`` if it stays as it is.
        keep_weights: True if the operand is larger than the other one.
        is_product: True if rows are along the only axis of the other operand.
    """

    vector: Any
    operand: _Access
    row: Any
    lanes: int
    vectors: int
    rows: int
    packing: _Packing | None = None
    keep_weights: bool = False
    is_product: bool = False

    @classmethod
    def choose(
        cls,
        block: Any,
        reads: list[_Access],
        *,
        lanes: int,
        registers: _Registers,
        settings: _Settings,
        constants: list[_Access],
    ) -> _Tiling | None:
        """Return the best tiling; ``None`` if no axis of the output is fit for vectors."""
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        readers = {id(axis): [access for access in reads if access.has(axis)] for axis in spatial}
        # If vectors are along an axis of one operand only, a value of the other operand multiplies a whole vector.
        single = [axis for axis in spatial if len(readers[id(axis)]) == 1]
        constant_places = {access.place for access in constants}

        def fitness(axis: Any) -> int:
            access = readers[id(axis)][0]
            if _divisor(axis.dom, lanes) < MIN_LANES:
                return 0
            if access.place in constant_places and access.dimension(axis) is not None:
                return 2  # a constant operand is packed: every vector is then contiguous
            return int(access.is_contiguous(axis))

        vector = max(single, key=lambda axis: (fitness(axis), _divisor(axis.dom, lanes)), default=None)
        if vector is None or not fitness(vector):
            return None
        operand, lanes = readers[id(vector)][0], _divisor(vector.dom, lanes)
        other = [axis for axis in single if readers[id(axis)][0] is not operand and axis.dom > 1]
        row = other[-1] if other else None
        rows, vectors = _tile_size(
            _divisors(row.dom if row is not None else 1),
            _divisors(vector.dom // lanes),
            registers=registers,
            settings=settings,
            steps=math.prod(axis.dom for axis in block.iters if axis.kind != "S"),
            vector_bytes=lanes * _element_bits(operand.buffer.dtype) // BYTE,
            cached_rows=_cached_rows(row, readers[id(row)][0]) if row is not None else 1,
        )
        dimension = operand.dimension(vector)
        packing = _Packing(dimension, lanes) if fitness(vector) == 2 and dimension is not None else None
        keep_weights = all(operand.size >= access.size for access in reads)
        is_product = len(other) == 1
        return cls(vector, operand, row, lanes, vectors, rows, packing, keep_weights, is_product)


@dataclass(frozen=True)
class _Window:
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
    def choose(cls, block: Any, reads: list[_Access], *, lanes: int, settings: _Settings) -> _Window | None:
        """Return the window that computes and copies the least; ``None`` if the last axis is not fit for vectors."""
        spatial = [axis for axis in block.iters if axis.kind == "S"]
        reduced = [axis for axis in block.iters if axis.kind != "S"]
        if len(spatial) < MIN_WINDOW_AXES or math.prod(axis.dom for axis in reduced) > MAX_UNROLLED_STEPS:
            return None
        *_, line, row, vector = spatial
        lanes = _divisor(vector.dom, lanes)
        if lanes < MIN_LANES or not all(access.is_contiguous(vector) for access in reads):
            return None
        assert settings.rows is not None
        vectors = _divisor(vector.dom // lanes, settings.vectors or 1)
        rows = _window_rows(row.dom, most=max(settings.rows // SUMS_SHARE // vectors, 1))
        data = max(reads, key=lambda access: access.size)
        read_lines, read_columns = (data.span(axis, reduced) for axis in (line, row))
        blocks = math.prod(axis.dom for axis in spatial[:-3]) * vector.dom // (lanes * vectors)
        most_values = WINDOW_BYTES * BYTE // _element_bits(data.buffer.dtype) // (lanes * vectors)

        def cost(size: tuple[int, int]) -> tuple[bool, bool, int]:
            lines, tiles = size
            count = line.dom // lines * _parts(row.dom, tiles * rows)
            values = read_lines(lines) * read_columns(tiles * rows)
            return values > most_values, blocks * count < MIN_CHUNKS, count * values

        sizes = itertools.product(_divisors(line.dom), _divisors(_parts(row.dom, rows)))
        lines, tiles = min(sizes, key=cost)
        return cls(lines, tiles, rows, vectors, lanes)


def _window_rows(size: int, *, most: int) -> int:
    """Return the rows of a tile that fit an axis best; its last tile may have fewer rows.

    A tile computes its missing rows in vain, loads its weights once for all rows, and tests if a row is missing.
    """

    def cost(rows: int) -> float:
        return _parts(size, rows) * (rows + 1) * (REMAINDER_COST if size % rows else 1)

    return min(range(1, most + 1), key=cost)


def _cached_rows(row: Any, data: _Access) -> int:
    """Return the number of rows whose data fit in the nearest cache together, however large that is."""
    between = math.gcd(data.stride_bytes(row), WAY_BYTES)
    return WAYS * WAY_BYTES // between if between else row.dom


def _tile_size(
    rows: list[int],
    vectors: list[int],
    *,
    registers: _Registers,
    settings: _Settings,
    steps: int,
    vector_bytes: int,
    cached_rows: int,
) -> tuple[int, int]:
    """Return the rows of a tile and the vectors in each row.

    Args:
        rows: Numbers of rows to choose from.
        vectors: Numbers of vectors to choose from.
        registers: The processor's registers.
        settings: Upper limits.
        steps: Number of products in a sum.
        vector_bytes: Size of a vector.
        cached_rows: Number of rows from which data are evicted from the nearest cache before they are used again.
    """
    assert settings.rows is not None
    most = min(settings.rows, settings.vectors or settings.rows)
    sizes = [
        (height, width)
        for height, width in itertools.product(rows, vectors)
        if height * width <= settings.rows and width <= most and height * width + width < registers.number
    ]

    def cost(size: tuple[int, int]) -> float:
        """Return the time for one product, as a multiple of that of an instruction."""
        height, width = size
        sums = height * width
        # For every step a tile loads one value for each row and the vectors of the weights.
        loads = (registers.load_of_data * height + LOAD_OF_WEIGHTS * width) / sums
        # Large tiles are in allocated memory before and after the loop over the steps.
        copies = COPIES_OF_SUMS / steps if sums * vector_bytes >= MAX_STACK_BYTES else 0
        evictions = max(0, height / cached_rows - 1)
        return max(1, SUMS_IN_FLIGHT / sums, STREAM_OF_WEIGHTS / height) + loads + copies + evictions

    return min(sizes, key=cost)


@dataclass(frozen=True)
class _PackedFunction:
    """A function that reads some arguments in another layout, with these layouts by argument place."""

    function: Any
    packings: dict[int, _Packing]


def _replace_packed(module: Any, packed: dict[str, _PackedFunction]) -> Any:
    """Return the module with these functions in place of the original ones, and with their constants in the layouts."""
    builder = relax.BlockBuilder(module)
    # New names, because TVM stores a function's type with the variable that names it.
    names = {name: builder.add_func(entry.function, f"{name}{PACKED}") for name, entry in packed.items()}

    def replace_call(call: Any) -> Any:
        name = call.args[0].name_hint if _is_call_tir(call) else ""
        if name not in packed:
            return call
        packings = packed[name].packings
        arguments = [_pack(argument, packings.get(place)) for place, argument in enumerate(call.args[1].fields)]
        return relax.Call(call.op, [names[name], relax.Tuple(arguments), *call.args[2:]], call.attrs, call.ty_args)

    module = builder.get()
    for entry in _entries(module):
        module.update_func(entry, tvm_ffi.structural_map(module[entry], (relax.Call, replace_call)))
    return relax.transform.DeadCodeElimination()(module)


def _pack(constant: Any, packing: _Packing | None) -> Any:
    if packing is None:
        return constant
    # A tensor of TVM's, because ``const`` narrows a numpy array of 64 bits to 32.
    return relax.const(tvm.runtime.tensor(packing.array(constant.value.numpy())))


def _constant_places(module: Any) -> dict[str, frozenset[int]]:
    """Return for every function the places of the arguments that are constants in all its calls."""
    places: dict[str, frozenset[int]] = {}

    def visit(call: Any) -> None:
        """Keep those places of a function that are constant in this call as well."""
        if _is_call_tir(call):
            arguments = enumerate(call.args[1].fields)
            constants = frozenset(place for place, value in arguments if isinstance(value, tvm.ir.GenericConst))
            name = call.args[0].name_hint
            places[name] = places.get(name, constants) & constants

    for entry in _entries(module):
        tvm_ffi.structural_walk(module[entry], (relax.Call, visit))
    return places


def _entries(module: Any) -> list[Any]:
    """Return the variables of the entry functions: ``main``, or one ``main_NAME`` for each of several cases."""
    functions = {name.name_hint: name for name, each in module.functions_items() if isinstance(each, relax.Function)}
    names = ["main"] if "main" in functions else sorted(name for name in functions if name.startswith("main_"))
    return [functions[name] for name in names]


def _bits(function: Any) -> int:
    """Return the bits of an element of the function's last parameter, its output; a boolean takes a byte."""
    return _element_bits(function.params[-1].dtype) if len(function.params) else 8


def _element_bits(dtype: Any) -> int:
    bits = re.search(r"\d+", str(dtype))
    return int(bits[0]) if bits else 8


def _is_call_tir(call: Any) -> bool:
    return getattr(call.op, "name", "") == "relax.call_tir"


def _is_scheduled(function: Any) -> bool:
    return bool(function.attrs and "tirx.is_scheduled" in function.attrs)


def _mentions(expression: Any, variable: Any) -> bool:
    variables: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, variables.append))
    return any(other.same_as(variable) for other in variables)


def _bindings(statement: Any) -> int:
    """Count the variables that are bound inside expressions."""
    bindings: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.Let, bindings.append))
    return len(bindings)


def _divisor(size: int, most: int) -> int:
    """Return the largest divisor up to ``most``."""
    return max(divisor for divisor in range(1, max(most, 1) + 1) if size % divisor == 0)


def _chunks(size: int) -> int:
    """Return the number of equal parts of a loop that threads share, all iterations if there are no such parts."""
    chunks = _divisor(size, CHUNKS)
    return chunks if chunks >= MIN_CHUNKS else size


def _parts(size: int, part: int) -> int:
    """Return the number of parts of a size that an axis is split into."""
    return -(-size // part)


def _divisors(size: int) -> list[int]:
    """Return all divisors."""
    return [divisor for divisor in range(1, size + 1) if size % divisor == 0]
