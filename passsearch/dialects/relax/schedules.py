"""Schedules for CPUs, where TVM's default pipeline leaves every function as the plain loops it is defined by.

A sum of products is computed in tiles that stay in vector registers: along one axis of the output the lanes of
vectors, along another their rows, every value of the other operand multiplied with a whole vector (Georganas et al.,
Anatomy of high-performance deep learning convolutions on SIMD architectures, SC18). Weights are laid out anew for that,
once, at compile time. All else is spread over threads and vectorised where its innermost axis allows.

Imports nothing but TVM and numpy: an exported deployment script carries a copy of this file.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight.analysis import normalize_prim_func
from tvm.target.codegen import llvm_get_vector_width

SMALL = 4096
"""Elements below which a loop is not worth starting threads for."""

CHUNKS = 64
"""Parts that threads share an elementwise loop in."""

FEWEST_LANES = 4
NARROWEST_BITS = 128
"""Of a vector register, whatever the processor."""


def ScheduleCPU(rows: int = 14, pack: bool = True) -> Any:  # noqa: N802
    """Schedules every function that has no schedule yet; elsewhere than on a CPU it changes nothing.

    Args:
        rows: Most vectors of sums that are kept in registers.
        pack: Lay weights out anew, so that what is read for one vector lies together.
    """

    def schedule(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "cpu" not in target.keys:
            return module
        module = relax.transform.FuseTIR()(module)
        width = max(llvm_get_vector_width(target), NARROWEST_BITS)
        packed: dict[str, _Packed] = {}
        constants = _constant_places(module) if pack else {}
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not _is_scheduled(function):
                lanes = width // _bits(function)
                work = _Work(function, lanes=lanes, rows=rows, constants=constants.get(name.name_hint, frozenset()))
                done = work.scheduled()
                if work.packings:
                    packed[name.name_hint] = _Packed(done, work.packings)
                else:
                    module.update_func(name, done)
        return _with_packed(module, packed) if packed else module

    return tvm.transform.module_pass(schedule, opt_level=0, name="ScheduleCPU")


@dataclass(frozen=True)
class _Packing:
    """One dimension of an array split, its inner part moved to the end.

    Attributes:
        dimension: Which.
        lanes: Size of its inner part.
    """

    dimension: int
    lanes: int

    def index(self, *indices: Any) -> list[Any]:
        """Where an element goes."""
        split = indices[self.dimension]
        others = [each for place, each in enumerate(indices) if place != self.dimension]
        return [split // self.lanes, *others, split % self.lanes]

    def array(self, array: Any) -> Any:
        """The array laid out so."""
        moved = np.moveaxis(array, self.dimension, 0)
        parts = moved.reshape(-1, self.lanes, *moved.shape[1:])
        return np.ascontiguousarray(np.moveaxis(parts, 1, -1))


class _Access:
    """How a block reads or writes one buffer."""

    def __init__(self, region: Any, place: int) -> None:
        self.buffer, self.place = region.source, place
        self._indices = [each.min for each in region.region]

    def has(self, axis: Any) -> bool:
        """Whether an axis of the block is in any index."""
        return any(_mentions(index, axis.var) for index in self._indices)

    def dimension(self, axis: Any) -> int | None:
        """The dimension an axis alone is the index of."""
        found = (place for place, index in enumerate(self._indices) if index.same_as(axis.var))
        return next(found, None)

    def contiguous(self, axis: Any) -> bool:
        """Whether only the innermost index has an axis."""
        *outer, last = self._indices
        return _mentions(last, axis.var) and not any(_mentions(index, axis.var) for index in outer)


class _Work:
    """The schedule of one function in the making."""

    def __init__(self, function: Any, *, lanes: int, rows: int, constants: frozenset[int]) -> None:
        self._function, self._lanes, self._rows, self._constants = function, lanes, rows, constants
        self._schedule = s_tir.Schedule(function)
        self.packings: dict[int, _Packing] = {}

    def scheduled(self) -> Any:
        """The function with its schedule, or as it is where its loops are of no known kind."""
        blocks = normalize_prim_func(self._schedule)
        if blocks is None or not all(isinstance(size, int) for block in blocks for size in block.dom()):
            return self._function
        self._inline(blocks)
        products = [block for block in blocks if self._is_sum_of_products(block)]
        reductions = [block for block in blocks if not block.is_injective()]
        done = self._tile(products[0]) if len(products) == len(reductions) == 1 else []
        for block in blocks:
            if block.name not in done:
                (self._spread if block.is_injective() else self._reduce)(block)
        return self._schedule.mod["main"].with_attr("tirx.is_scheduled", True)

    def _inline(self, blocks: list[Any]) -> None:
        """Elementwise blocks into the elementwise blocks that read them."""
        plain = {block.name for block in blocks if block.is_injective()}
        for block in [block for block in blocks if block.is_injective()]:
            readers = self._schedule.get_consumers(block.block_rv)
            if readers and all(self._schedule.get(reader).name_hint in plain for reader in readers):
                try:
                    self._schedule.compute_inline(block.block_rv)
                except s_tir.schedule.ScheduleError:
                    continue
                blocks.remove(block)

    def _is_sum_of_products(self, block: Any) -> bool:
        return not block.is_injective() and len(self._reads(block)) == 2

    def _reads(self, block: Any) -> list[_Access]:
        """What a block reads beside its own sum."""
        statement = self._schedule.get(block.block_rv)
        own = statement.writes[0].source
        accesses = [_Access(region, place) for place, region in enumerate(statement.reads)]
        return [access for access in accesses if not access.buffer.same_as(own)]

    def _spread(self, block: Any) -> None:
        """Elementwise: one loop over all, in vectors, in chunks for threads."""
        loops = self._schedule.get_loops(block.block_rv)
        if not loops:
            return
        size = math.prod(block.dom())
        lanes = _divisor(size, self._lanes)
        outer = self._schedule.fuse(*loops)
        if lanes >= FEWEST_LANES:
            outer, vector = self._schedule.split(outer, [None, lanes])
            self._schedule.vectorize(vector)
        if size >= SMALL:
            chunk, _ = self._schedule.split(outer, [_divisor(size // max(lanes, 1), CHUNKS), None])
            self._schedule.parallel(chunk)

    def _reduce(self, block: Any) -> None:
        """Any reduction: the output over threads, vectors along its last axis where what is read lies so."""
        schedule, loops = self._schedule, self._schedule.get_loops(block.block_rv)
        if len(loops) != len(block.iters):
            return
        kept = [(loop, axis) for loop, axis in zip(loops, block.iters, strict=True) if axis.kind == "S"]
        summed = [loop for loop, axis in zip(loops, block.iters, strict=True) if axis.kind != "S"]
        if not kept:
            return
        outer, last, vector = [loop for loop, _ in kept], kept[-1][1], None
        lanes = _divisor(last.dom, self._lanes)
        if lanes >= FEWEST_LANES and all(access.contiguous(last) for access in self._reads(block)):
            around, vector = schedule.split(outer[-1], [None, lanes])
            outer = [*outer[:-1], around]
        schedule.reorder(*outer, *summed, *([vector] if vector is not None else []))
        spread = schedule.fuse(*outer)
        if math.prod(block.dom()) >= SMALL:
            schedule.parallel(spread)
        if vector is not None:
            schedule.vectorize(vector)
            first = schedule.decompose_reduction(block.block_rv, summed[0])
            schedule.vectorize(schedule.get_loops(first)[-1])

    def _tile(self, block: Any) -> list[str]:
        """A sum of products, with what is computed from its result; the names of the blocks that this takes care of."""
        tiling = _Tiling.of(block, self._reads(block), lanes=self._lanes, rows=self._rows, constants=self._free(block))
        if tiling is None:
            return []
        packing = tiling.packing
        if packing is not None:
            self.packings[self._parameter(tiling.operand)] = packing
            self._schedule.transform_layout(block.block_rv, ("read", tiling.operand.place), packing.index)
        after = self._after(block)
        self._last_axis(block, tiling.vector)
        self._compute(block, tiling, after=after)
        return [block.name, self._schedule.get(after).name_hint]

    def _free(self, block: Any) -> list[_Access]:
        """What it reads of parameters that are constant in every call."""
        return [access for access in self._reads(block) if self._parameter(access) in self._constants]

    def _parameter(self, access: _Access) -> int:
        params = self._schedule.mod["main"].params
        return next((place for place, each in enumerate(params) if each.same_as(access.buffer)), -1)

    def _after(self, block: Any) -> Any:
        """The block that reads the sums in their own order, or else a copy of them."""
        kept = [axis.dom for axis in block.iters if axis.kind == "S"]
        readers = self._schedule.get_consumers(block.block_rv)
        if len(readers) == 1:
            sizes = [int(self._schedule.get(loop).extent) for loop in self._schedule.get_loops(readers[0])]
            if sizes == kept:
                return readers[0]
        return self._schedule.cache_write(block.block_rv, 0, "global")

    def _loops_of(self, after: Any, kept: list[Any]) -> list[Any]:
        """A block's loops over these axes; a copy also has loops over the buffer's dimensions of size 1."""
        loops = list(self._schedule.get_loops(after))
        return (
            loops if len(loops) == len(kept) else [each for each in loops if int(self._schedule.get(each).extent) > 1]
        )

    def _last_axis(self, block: Any, axis: Any) -> None:
        """The sums of one vector side by side."""
        write = _Access(self._schedule.get(block.block_rv).writes[0], 0)
        dimension = write.dimension(axis)
        assert dimension is not None
        self._schedule.transform_layout(
            block.block_rv,
            ("write", 0),
            lambda *indices: [*indices[:dimension], *indices[dimension + 1 :], indices[dimension]],
        )

    def _compute(self, block: Any, tiling: _Tiling, *, after: Any) -> None:
        """Sums of one tile at a time, each right before what reads them."""
        schedule = self._schedule
        kept = [axis for axis in block.iters if axis.kind == "S"]
        loops = dict(zip(map(id, kept), self._loops_of(after, kept), strict=True))
        row = None
        blocks, vectors, lane = schedule.split(loops[id(tiling.vector)], [None, tiling.vectors, tiling.lanes])
        rest = [blocks if axis is tiling.vector else loops[id(axis)] for axis in kept if axis is not tiling.row]
        inner = [vectors, lane]
        if tiling.row is not None:
            stripe, row = schedule.split(loops[id(tiling.row)], [None, tiling.rows])
            rest, inner = [*rest, stripe], [vectors, row, lane]
        schedule.reorder(*rest, *inner)
        around = schedule.fuse(*rest)
        schedule.compute_at(block.block_rv, around, preserve_unit_loops=True)
        summed, tile = self._sum(block, tiling)
        # What is written last lies in the order of the network: along the vector's axis, or along the row's.
        if tiling.row is not None and kept[-1] is tiling.row:
            schedule.reorder(lane, row)
            lane = row
        if int(schedule.get(lane).extent) >= FEWEST_LANES:
            schedule.vectorize(lane)
        if math.prod(block.dom()) >= SMALL:
            schedule.parallel(around)
        first = schedule.get_loops(schedule.decompose_reduction(block.block_rv, summed))
        schedule.vectorize(first[-1])
        for loop in first[-1 - tile : -1]:
            schedule.unroll(loop)

    def _sum(self, block: Any, tiling: _Tiling) -> tuple[Any, int]:
        """All products of one tile: what is summed, around its vectors and rows unrolled.

        Answers the outermost loop of what is summed, and how many loops a tile has around its lanes.
        """
        schedule, axes = self._schedule, list(block.iters)
        loops = dict(zip(map(id, axes), list(schedule.get_loops(block.block_rv))[-len(axes) :], strict=True))
        vectors, lane = schedule.split(loops[id(tiling.vector)], [None, tiling.lanes])
        tile = [vectors] if tiling.row is None else [vectors, loops[id(tiling.row)]]
        summed = [loops[id(axis)] for axis in axes if axis.kind != "S"]
        units = [loops[id(axis)] for axis in axes if axis.kind == "S" and axis not in (tiling.vector, tiling.row)]
        schedule.reorder(*units, *summed, *tile, lane)
        for loop in tile:
            schedule.unroll(loop)
        schedule.vectorize(lane)
        return summed[0], len(tile)


@dataclass(frozen=True)
class _Tiling:
    """The part of a sum of products that is kept in registers.

    Attributes:
        vector: The output's axis that vectors lie along.
        operand: What is read by vectors.
        row: The axis that vectors are repeated along, each multiplied with another value; ``None`` without one.
        lanes: Elements of a vector.
        vectors: Vectors side by side.
        rows: How often these are repeated.
        packing: How the operand is laid out anew; ``None`` where it stays as it is.
    """

    vector: Any
    operand: _Access
    row: Any
    lanes: int
    vectors: int
    rows: int
    packing: _Packing | None

    @classmethod
    def of(cls, block: Any, reads: list[_Access], *, lanes: int, rows: int, constants: list[_Access]) -> _Tiling | None:
        """The best there is; ``None`` where no axis of the output is fit for vectors."""
        kept = [axis for axis in block.iters if axis.kind == "S"]
        sole = {id(axis): [access for access in reads if access.has(axis)] for axis in kept}
        single = [axis for axis in kept if len(sole[id(axis)]) == 1]
        free = {access.place for access in constants}

        def fitness(axis: Any) -> int:
            access = sole[id(axis)][0]
            if _divisor(axis.dom, lanes) < FEWEST_LANES:
                return 0
            if access.place in free and access.dimension(axis) is not None:
                return 2
            return int(access.contiguous(axis))

        vector = max(single, key=lambda axis: (fitness(axis), _divisor(axis.dom, lanes)), default=None)
        if vector is None or not fitness(vector):
            return None
        operand, lanes = sole[id(vector)][0], _divisor(vector.dom, lanes)
        other = [axis for axis in single if sole[id(axis)][0] is not operand and axis.dom > 1]
        row = other[-1] if other else None
        repeated = _divisor(row.dom, rows) if row is not None else 1
        vectors = _divisor(vector.dom // lanes, rows // repeated)
        dimension = operand.dimension(vector)
        packing = _Packing(dimension, lanes) if fitness(vector) == 2 and dimension is not None else None
        return cls(vector, operand, row, lanes, vectors, repeated, packing)


@dataclass(frozen=True)
class _Packed:
    """A function that reads some of its arguments in another layout, and which, by their places."""

    function: Any
    packings: dict[int, _Packing]


def _with_packed(module: Any, packed: dict[str, _Packed]) -> Any:
    """The module with such functions in the place of those they were, and their constants laid out so."""
    builder = relax.BlockBuilder(module)
    # Under names of their own: TVM keeps a function's type with the name it is called by.
    names = {name: builder.add_func(each.function, f"{name}_packed") for name, each in packed.items()}

    def laid_out(call: Any) -> Any:
        name = call.args[0].name_hint if _is_call_tir(call) else ""
        if name not in packed:
            return call
        packings = packed[name].packings
        given = [_laid_out(each, packings.get(place)) for place, each in enumerate(call.args[1].fields)]
        return relax.Call(call.op, [names[name], relax.Tuple(given), *call.args[2:]], call.attrs, call.ty_args)

    module = builder.get()
    main = module.get_global_var("main")
    module.update_func(main, tvm_ffi.structural_map(module[main], (relax.Call, laid_out)))
    return relax.transform.DeadCodeElimination()(module)


def _laid_out(constant: Any, packing: _Packing | None) -> Any:
    if packing is None:
        return constant
    # As a tensor of TVM's: of an array ``const`` makes 32 bits of 64.
    return relax.const(tvm.runtime.tensor(packing.array(constant.value.numpy())))


def _constant_places(module: Any) -> dict[str, frozenset[int]]:
    """By function the places of arguments that are constants wherever it is called."""
    found: dict[str, frozenset[int]] = {}

    def visit(call: Any) -> None:
        if _is_call_tir(call):
            arguments = enumerate(call.args[1].fields)
            constants = frozenset(place for place, each in arguments if isinstance(each, tvm.ir.GenericConst))
            name = call.args[0].name_hint
            found[name] = found.get(name, constants) & constants

    tvm_ffi.structural_walk(module["main"], (relax.Call, visit))
    return found


def _bits(function: Any) -> int:
    """Of an element of what the function writes, which its last parameter is; a boolean takes a byte."""
    bits = re.search(r"\d+", str(function.params[-1].dtype)) if len(function.params) else None
    return int(bits[0]) if bits else 8


def _is_call_tir(call: Any) -> bool:
    return getattr(call.op, "name", "") == "relax.call_tir"


def _is_scheduled(function: Any) -> bool:
    return bool(function.attrs and "tirx.is_scheduled" in function.attrs)


def _mentions(expression: Any, variable: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, found.append))
    return any(each.same_as(variable) for each in found)


def _divisor(size: int, most: int) -> int:
    """The largest divisor up to ``most``."""
    return max(each for each in range(1, max(most, 1) + 1) if size % each == 0)
