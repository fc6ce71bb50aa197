"""The last tile or vector along an axis begins earlier where the size is no multiple of it, and overlaps with another.

TVM would test each element of the last tile for being below the size, and tests inside an unrolled sum keep it out of
the registers. Here all tiles are whole: the last one computes some elements again, and stores the same values. A
reduction must not take an element twice, so its last vector has the initial value in place of what was taken before.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.sym import Analyzer

from .accesses import Packing, mentions, substitute
from .sizes import part_count

INDEX = "int64"
"""Type of all indices that Relax writes. Functions that others wrote may have narrower ones; these stay as they are."""

MASK = "int32"
"""Type of the numbers whose comparison says which elements of a vector are new."""

COMBINATIONS = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)
"""How a reduction takes an element. TVM splits only those whose initial value is neutral."""


def overlap_tiles(function: Any, *, left_out: Collection[str] = (), flat: Collection[str] = ()) -> Any:
    """Return a scheduled function whose tiles overlap where a size is no multiple of them.

    The loops of a tile are those that are unrolled or in vectors. All that a tile reads must be stored before the loop
    over tiles, or be computed for the same tile.

    Args:
        function: The function.
        left_out: Names of blocks that are left as they are.
        flat: Names of blocks whose loops are one loop over all elements, in their order.
    """
    analyzer = Analyzer()
    tile_loops: dict[Any, int] = {}

    def collect(loop: Any) -> None:
        analyzer.bind(loop.loop_var, Range.from_min_extent(loop.min, loop.extent))
        if loop.kind in (tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED):
            tile_loops[loop.loop_var] = int(loop.extent)

    def with_whole_tiles(realize: Any) -> Any:
        name = realize.block.name_hint.removesuffix("_init").removesuffix("_update")
        values, tests = list(realize.iter_values), _conjuncts(realize.predicate)
        if name in flat:
            indices = _flat_indices(realize.block, tests, tile_loops, analyzer)
            return SBlockRealize(indices, tirx.const(True), realize.block) if indices else realize
        left = [
            test for test in tests if name in left_out or not _replace_tested_index(test, values, tile_loops, analyzer)
        ]
        if len(left) == len(tests):
            return realize
        return SBlockRealize(values, tirx.all(*left) if left else tirx.const(True), realize.block)

    tvm_ffi.structural_walk(function.body, (tirx.For, collect))
    return function.with_body(tvm_ffi.structural_map(function.body, (SBlockRealize, with_whole_tiles)))


def _conjuncts(predicate: Any) -> list[Any]:
    if isinstance(predicate, tirx.And):
        return [*_conjuncts(predicate.a), *_conjuncts(predicate.b)]
    return [] if isinstance(predicate, tirx.IntImm) else [predicate]


def _replace_tested_index(test: Any, values: list[Any], tile_loops: Mapping[Any, int], analyzer: Any) -> bool:
    """Put the index of a whole tile in place of the one that is tested; return False if the test is of another kind.

    Args:
        test: A condition on the loops around a block.
        values: The block's indices; one of them is changed.
        tile_loops: Sizes of the loops of tiles, by variable.
        analyzer: Knows the ranges of all loops.
    """
    if not isinstance(test, tirx.LT) or not isinstance(test.b, tirx.IntImm):
        return False
    places = (place for place, value in enumerate(values) if analyzer.can_prove_equal(value, test.a))
    place = next(places, None)
    if place is None:
        return False
    index = _whole_tile(values[place], int(test.b), tile_loops, analyzer)
    if index is None:
        return False
    values[place] = index
    return True


def _flat_indices(block: Any, tests: Sequence[Any], tile_loops: Mapping[Any, int], analyzer: Any) -> list[Any]:
    """Return the indices of an element in whole vectors of all elements; none if the tests are of another kind."""
    sizes = [int(axis.dom.extent) for axis in block.iter_vars]
    total = math.prod(sizes)
    if len(tests) != 1 or not isinstance(tests[0], tirx.LT) or not isinstance(tests[0].b, tirx.IntImm):
        return []
    index = _whole_tile(tests[0].a, total, tile_loops, analyzer) if int(tests[0].b) == total else None
    indices: list[Any] = []
    inner = total
    for size in sizes if index is not None else ():
        inner //= size
        outer = index // tirx.IntImm(INDEX, inner) if inner > 1 else index
        indices.append(outer % tirx.IntImm(INDEX, size) if indices else outer)
    return indices


def _whole_tile(index: Any, extent: int, tile_loops: Mapping[Any, int], analyzer: Any) -> Any:
    """Return an index in tiles of which the last begins earlier; ``None`` if it is in no tile."""
    tile = {variable: size for variable, size in tile_loops.items() if mentions(index, variable)}
    begin = substitute(index, {variable: tirx.IntImm(INDEX, 0) for variable in tile})
    last = substitute(index, {variable: tirx.IntImm(INDEX, size - 1) for variable, size in tile.items()})
    size = analyzer.simplify(last - begin + 1)
    if not tile or not isinstance(size, tirx.IntImm) or int(size) > extent:
        return None
    latest_begin = tirx.IntImm(INDEX, extent - int(size))
    return tirx.min(analyzer.simplify(begin), latest_begin) + analyzer.simplify(index - begin)


def read_repeated_columns(function: Any, weights: Any, packing: Packing) -> Any:
    """Return a function that reads packed weights in which the last inner part repeats columns.

    Args:
        function: A function after ``overlap_tiles``, with the indices of ``packing.index``.
        weights: Its parameter that is packed.
        packing: The layout, whose inner parts are as wide as a tile.
    """
    analyzer = Analyzer()
    latest_begin = tirx.IntImm(INDEX, packing.size - packing.width)

    def changed(realize: Any) -> Any:
        block, axes, values = realize.block, list(realize.block.iter_vars), list(realize.iter_values)
        region = next((each.region for each in block.reads if each.source.same_as(weights)), None)
        if region is None or _has_blocks(block.body):  # the blocks inside are changed by themselves
            return realize
        first, *others, _ = region
        place = next((place for place, axis in enumerate(axes) if _is_part_of(axis.var, first.min)), None)
        last, own = Range(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, packing.width)), []
        if (
            place is not None
            and _reads_one_column(block.body, weights)
            and _is_in_tile(values[place], packing, analyzer)
        ):
            own = [_new_axis("tile", packing.count), _new_axis("column", packing.width)]
            begin, offset = values[place].a.a, values[place].b
            axes, values = [*axes, *own], [*values, analyzer.simplify(begin // packing.width), offset]
            first, last = (Range.from_min_extent(axis.var, 1) for axis in own)

        def corrected(read: Any) -> Any:
            if not read.source.same_as(weights):
                return read
            part, *inner, column = read.indices
            if own:  # plain indices, so that TVM sees a whole vector
                part, column = (axis.var for axis in own)
            else:
                column = column + tirx.max(part * packing.width - latest_begin, tirx.IntImm(INDEX, 0))
            return tirx.BufferLoad(weights, [part, *inner, column])

        body = tvm_ffi.structural_map(block.body, (tvm.ir.TensorLoad, corrected))
        changed_region = tirx.BufferRegion(weights, [first, *others, last])
        reads = [changed_region if each.source.same_as(weights) else each for each in block.reads]
        new = SBlock(axes, reads, block.writes, block.name_hint, body, block.init, annotations=block.annotations)
        return SBlockRealize(values, realize.predicate, new)

    return function.with_body(tvm_ffi.structural_map(function.body, (SBlockRealize, changed)))


def _reads_one_column(body: Any, buffer: Any) -> bool:
    """Return True if all reads of a buffer are at the same first and last index."""
    ends: list[Any] = []

    def collect(read: Any) -> None:
        if read.source.same_as(buffer):
            ends.append([read.indices[0], read.indices[-1]])

    tvm_ffi.structural_walk(body, (tvm.ir.TensorLoad, collect))
    return all(tvm_ffi.structural_equal(end, ends[0]) for end in ends)


def _has_blocks(body: Any) -> bool:
    blocks: list[Any] = []
    tvm_ffi.structural_walk(body, (SBlockRealize, blocks.append))
    return bool(blocks)


def _is_part_of(variable: Any, index: Any) -> bool:
    """Return True if an index is a variable divided by a number."""
    return isinstance(index, tirx.FloorDiv) and index.a.same_as(variable)


def _is_in_tile(index: Any, packing: Packing, analyzer: Any) -> bool:
    """Return True if an index is the begin of a tile, which is earlier for the last tile only, and a place in it."""
    if not isinstance(index, tirx.Add) or not isinstance(index.a, tirx.Min) or not isinstance(index.a.b, tirx.IntImm):
        return False
    is_last = int(index.a.b) == packing.size - packing.width
    return is_last and analyzer.can_prove_equal(index.a.a % packing.width, tirx.IntImm(INDEX, 0))


def _new_axis(name: str, size: int) -> Any:
    """Return a new axis of a block."""
    bounds = Range(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, size))
    return tirx.IterVar(bounds, tirx.Var(name, INDEX), tirx.IterVar.DataPar)


def widen_reductions(function: Any, *, lanes: int, names: Collection[str]) -> Any:
    """Return a function without a schedule whose reductions have a multiple of ``lanes`` steps.

    The last ``lanes`` steps take the last elements, and the initial value in place of those that were taken before.

    Args:
        function: The function.
        lanes: Elements of a vector; a reduction has at least as many.
        names: Names of the blocks to change; each of them reduces its last axis.
    """
    extents: dict[Any, Any] = {}

    def widen(realize: Any) -> Any:
        block, axes = realize.block, list(realize.block.iter_vars)
        if block.name_hint not in names or not isinstance(block.body.value, COMBINATIONS):
            return realize
        place = max(place for place, axis in enumerate(axes) if axis.iter_type == tirx.IterVar.CommReduce)
        axis, size = axes[place], int(axes[place].dom.extent)
        if str(axis.dom.extent.ty) != INDEX:
            return realize
        extent = tirx.IntImm(INDEX, part_count(size, lanes) * lanes)
        extents[realize.iter_values[place]] = extent
        axes[place] = tirx.IterVar(Range(0, extent), axis.var, axis.iter_type)
        body = _overlapping_store(block, axis.var, size=size, lanes=lanes)
        reads = _regions_of_all(block.reads, axis.var)
        changed = SBlock(axes, reads, block.writes, block.name_hint, body, block.init, annotations=block.annotations)
        return SBlockRealize(realize.iter_values, realize.predicate, changed)

    def lengthen(loop: Any) -> Any:
        extent = next((extent for variable, extent in extents.items() if variable.same_as(loop.loop_var)), None)
        return loop if extent is None else tirx.For(loop.loop_var, loop.min, extent, loop.kind, loop.body)

    # The loops come second, because the blocks inside say which ones are meant.
    body = tvm_ffi.structural_map(function.body, (SBlockRealize, widen))
    return function.with_body(tvm_ffi.structural_map(body, (tirx.For, lengthen)))


def _overlapping_store(block: Any, step: Any, *, size: int, lanes: int) -> Any:
    """Return what a reduction stores at a step, of which there are more than its ``size``."""
    store = block.body
    own, value = store.value.a, store.value.b
    if not (isinstance(own, tvm.ir.TensorLoad) and own.source.same_as(store.buffer)):
        own, value = value, own
    vector = step // lanes * lanes
    begin, lane = tirx.min(vector, tirx.IntImm(INDEX, size - lanes)), step % lanes
    value = substitute(value, {step: begin + lane})
    if not isinstance(store.value, (tirx.Max, tirx.Min)):  # these may take an element twice
        # In 32 bits, as many as of the elements, because a mask of 64 has to be packed.
        is_new = lane.astype(MASK) >= (vector - begin).astype(MASK)
        value = tirx.Select(is_new, value, block.init.value)
    return tirx.BufferStore(store.buffer, type(store.value)(own, value), store.indices)


def _regions_of_all(regions: Sequence[Any], variable: Any) -> list[Any]:
    """Return regions with all of every dimension whose index has the variable."""
    result = []
    for region in regions:
        sizes = zip(region.region, region.source.shape, strict=True)
        ranges = [Range(0, size) if mentions(bounds.min, variable) else bounds for bounds, size in sizes]
        result.append(tirx.BufferRegion(region.source, ranges))
    return result
