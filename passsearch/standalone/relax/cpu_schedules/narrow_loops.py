"""Sums of products that widen one factor, a parameter that is stored narrow, where they read it.

Numbers with a scale for each group (``storage.py``) lie in words, so the summed axis of ``k`` becomes three: groups,
words of a group and places of a word. With ``q`` the number at a place of a word and ``s`` the scale of a group, a
kernel of several rows computes ::

    for group, word:
        unrolled for place: sums[row, column] += data[row, k] * (q * s)

and one of a single row, which has registers to spare, multiplies by the scale once for each word::

    for group, word: sums[column] += s * (data[k] * q + data[k + 1] * q' + ...)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.sym import Analyzer

from .accesses import mentions, substitute
from .overlap import INDEX
from .sizes import largest_divisor
from .storage import HALF_BITS, WORD_BITS, Storage

UNROLLED = "passsearch.unrolled_sum"
"""Annotation of a block whose last summing loop is unrolled in a tile: the places in a word must be constants there."""

LEAST_GROUP = 16
"""Least numbers that share a scale."""

NO_FACTOR = "they are no factor of a sum of products"


@dataclass(frozen=True)
class Factor:
    """A parameter that is one factor of the only sum of products of a function that reads it.

    Attributes:
        realize: The block of the sum.
        buffer: The parameter.
        load: Its read.
        data: The other factor.
        columns: Dimensions of the parameter that are axes of the result; the others are summed up.
    """

    realize: Any
    buffer: Any
    load: Any
    data: Any
    columns: tuple[int, ...]

    @classmethod
    def find(cls, function: Any, place: int) -> Factor | str:
        """Return the parameter at this place as a factor, or the reason why it is none."""
        buffer = function.params[place]
        readers = [each for each in _blocks(function.body) if _loads(each.block.body, buffer)]
        if len(readers) != 1:
            return f"{len(readers)} blocks of the kernel read them"
        (realize,) = readers
        factors = _factors(realize.block)
        loads = [each for each in factors if isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(buffer)]
        if len(loads) != 1 or len(_loads(realize.block.body, buffer)) != 1:
            return NO_FACTOR
        (load,) = loads
        (data,) = [each for each in factors if not each.same_as(load)]
        axes = [axis.var for axis in realize.block.iter_vars if axis.iter_type != tirx.IterVar.CommReduce]
        columns = {place: axis for place, index in enumerate(load.indices) for axis in axes if index.same_as(axis)}
        others = [index for place, index in enumerate(load.indices) if place not in columns]
        if any(mentions(index, axis) for index in others for axis in axes):
            return "an index of them is of the sum and of the result"
        own = {index for each in _all_loads(data) for index in each.indices}
        if all(any(index.same_as(axis) for index in own) for axis in columns.values()):
            return "each number is multiplied with one channel only"
        return cls(realize, buffer, load, data, tuple(columns))

    @property
    def summed(self) -> tuple[int, ...]:
        """Dimensions of the parameter that are summed up."""
        return tuple(place for place in range(len(self.load.indices)) if place not in self.columns)

    @property
    def has_one_row(self) -> bool:
        """True if each number is used once, so that every axis of the result is one of the parameter's, or of size 1."""
        axes = [axis for axis in self.realize.block.iter_vars if axis.iter_type != tirx.IterVar.CommReduce]
        others = [axis for axis in axes if not any(index.same_as(axis.var) for index in self.load.indices)]
        return all(isinstance(axis.dom.extent, tirx.IntImm) and int(axis.dom.extent) == 1 for axis in others)

    @property
    def steps(self) -> tuple[int, Any] | None:
        """The largest dimension that is an axis of the sum alone, and that axis; ``None`` without one."""
        axes = zip(self.realize.block.iter_vars, self.realize.iter_values, strict=True)
        # An axis is a loop of its own, except in kernels that a schedule has changed.
        own = [axis for axis, loop in axes if isinstance(loop, tvm.ir.Var)]
        found = [
            (place, axis)
            for place in self.summed
            for axis in own
            if self.load.indices[place].same_as(axis.var) and axis.iter_type == tirx.IterVar.CommReduce
        ]
        return max(found, key=lambda each: int(each[1].dom.extent), default=None)

    def group(self, storage: Storage) -> int:
        """Return the largest group up to that of a storage which divides the sum; 0 if there is none."""
        if self.steps is None:
            return 0
        words, rest = divmod(int(self.steps[1].dom.extent), storage.numbers_of_word)
        if rest:
            return 0
        group = largest_divisor(words, storage.group // storage.numbers_of_word) * storage.numbers_of_word
        return group if group >= LEAST_GROUP else 0


def narrowed(function: Any, factor: Factor, storage: Storage) -> Any:
    """Return a function that reads a factor in another storage, and after it the scales of its columns if it has any.

    Args:
        function: The function.
        factor: A parameter of it.
        storage: The storage, with a group that divides the sum.
    """
    shape = list(factor.buffer.shape)
    if storage.group:
        assert factor.steps is not None
        dimension, axis = factor.steps
        shape[dimension] = tirx.IntImm(INDEX, int(axis.dom.extent) // storage.group * storage.words_of_group)
    buffer = tirx.decl_buffer(shape, storage.dtype, name=factor.buffer.name)
    params = [buffer if each.same_as(factor.buffer) else each for each in function.params]
    body = _Words(factor, storage, buffer).body(function.body) if storage.group else _widen(function.body, factor, storage, buffer)
    if storage.has_column_scales:
        shape = [factor.buffer.shape[each] for each in factor.columns]
        scales = tirx.decl_buffer(shape, "float32", name=f"{factor.buffer.name}_scales")
        params.insert(next(place for place, each in enumerate(params) if each.same_as(buffer)) + 1, scales)
        body = _with_scales(body, factor, scales)
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def _widen(body: Any, factor: Factor, storage: Storage, buffer: Any) -> Any:
    """Return a function's body that reads a factor from another buffer of its shape."""
    block, read = factor.realize.block, tirx.BufferLoad(buffer, list(factor.load.indices))
    value = tirx.Cast("float32", read)
    if storage.name == "bfloat16":
        value = tirx.reinterpret("float32", tirx.Cast("int32", read) << tirx.const(HALF_BITS, "int32"))
    reads = [
        tirx.BufferRegion(buffer, each.region) if each.source.same_as(factor.buffer) else each for each in block.reads
    ]
    changed = _with_body(block, factor.data * value, reads=reads)
    return _replace_block(body, SBlockRealize(factor.realize.iter_values, factor.realize.predicate, changed))


def _with_scales(body: Any, factor: Factor, scales: Any) -> Any:
    """Return a function's body that multiplies the sums by the scales of their columns, in a block of its own."""
    block = factor.realize.block
    result, indices = block.body.buffer, list(block.body.indices)
    sums = tirx.decl_buffer(list(result.shape), "float32", name=f"{result.name}_unscaled")
    places = [at for each in factor.columns for at, index in enumerate(indices) if index.same_as(factor.load.indices[each])]

    def value(axes: Sequence[Any]) -> Any:
        return tirx.BufferLoad(sums, axes) * tirx.BufferLoad(scales, [axes[place] for place in places])

    root = body.block
    statements = [*root.body.seq] if isinstance(root.body, tirx.SeqStmt) else [root.body]
    names = [[each.block.name_hint for each in _blocks(statement)] for statement in statements]
    place = next(place for place, each in enumerate(names) if block.name_hint in each)
    summing = tvm_ffi.structural_map(statements[place], (tvm.ir.Var, lambda each: sums if each.same_as(result) else each))
    statements[place : place + 1] = [summing, _elementwise(f"{block.name_hint}_scale", result, value)]
    changed = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt(statements),
        alloc_buffers=[*root.alloc_buffers, sums],
        annotations=root.annotations,
    )
    return SBlockRealize(body.iter_values, body.predicate, changed)


def _elementwise(name: str, result: Any, value: Callable[[Sequence[Any]], Any]) -> Any:
    """Return loops that store a value for each element of a buffer."""
    axes = [tirx.Var(f"v{place}", INDEX) for place, _ in enumerate(result.shape)]
    loops = [tirx.Var(f"i{place}", INDEX) for place, _ in enumerate(result.shape)]
    stored = value(axes)
    bounds = [Range(tirx.IntImm(INDEX, 0), size) for size in result.shape]
    iters = [tirx.IterVar(each, axis, tirx.IterVar.DataPar) for each, axis in zip(bounds, axes, strict=True)]
    reads = [_region(load.source, load.indices) for load in _all_loads(stored)]
    store = tirx.BufferStore(result, stored, axes)
    nest: Any = SBlockRealize(loops, True, SBlock(iters, reads, [_region(result, axes)], name, store))
    return _nest(loops, list(result.shape), nest)


class _Words:
    """A sum over groups, their words, and the places of a word, in place of one over the numbers of a factor."""

    def __init__(self, factor: Factor, storage: Storage, buffer: Any) -> None:
        assert factor.steps is not None
        self._factor, self._storage, self._buffer = factor, storage, buffer
        self._dimension, self._axis = factor.steps
        self._is_chain = factor.has_one_row
        groups = int(self._axis.dom.extent) // storage.group
        sizes = {"group": groups, "word": storage.words_of_group - 1, "place": storage.numbers_of_word}
        if self._is_chain:
            del sizes["place"]
        self._sizes = list(sizes.values())
        self._axes = [tirx.Var(f"{self._axis.var.name}_{name}", INDEX) for name in sizes]

    def body(self, body: Any) -> Any:
        """Return a function's body with this sum."""
        realize, block = self._factor.realize, self._factor.realize.block
        place = next(place for place, axis in enumerate(block.iter_vars) if axis.same_as(self._axis))
        loop = realize.iter_values[place]
        loops = [tirx.Var(axis.name, INDEX) for axis in self._axes]
        iters, values = list(block.iter_vars), list(realize.iter_values)
        iters[place : place + 1] = [
            tirx.IterVar(Range(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, size)), axis, tirx.IterVar.CommReduce)
            for axis, size in zip(self._axes, self._sizes, strict=True)
        ]
        values[place : place + 1] = loops
        annotations = {} if self._is_chain else {UNROLLED: True}
        changed = _with_body(block, self._product(), reads=self._reads(), iters=iters, annotations=annotations)
        body = _replace_block(body, SBlockRealize(values, realize.predicate, changed))

        def split(each: Any) -> Any:
            return _nest(loops, self._sizes, each.body) if each.loop_var.same_as(loop) else each

        return tvm_ffi.structural_map(body, (tirx.For, split))

    def _product(self) -> Any:
        if not self._is_chain:
            number = self._axes[-1]
            return self._data(number) * (self._number(tirx.Cast("int32", number)) * self._scale())
        terms = [
            self._data(tirx.IntImm(INDEX, place)) * self._number(tirx.const(place, "int32"))
            for place in range(self._storage.numbers_of_word)
        ]
        return self._scale() * functools.reduce(operator.add, terms)

    def _step(self, place: Any) -> Any:
        group, word, *_ = self._axes
        return group * self._storage.group + word * self._storage.numbers_of_word + place

    def _data(self, place: Any) -> Any:
        return substitute(self._factor.data, {self._axis.var: self._step(place)})

    def _number(self, place: Any) -> Any:
        """Return the number at a place of a word as float32: its bits with those above shifted out, sign kept."""
        bits = tirx.const(WORD_BITS - self._storage.bits, "int32")
        return tirx.Cast("float32", (self._word(self._axes[1]) << (bits - place * self._storage.bits)) >> bits)

    def _scale(self) -> Any:
        return tirx.reinterpret("float32", self._word(self._storage.words_of_group - 1))

    def _word(self, word: Any) -> Any:
        indices = list(self._factor.load.indices)
        indices[self._dimension] = self._axes[0] * self._storage.words_of_group + word
        return tirx.BufferLoad(self._buffer, indices)

    def _reads(self) -> list[Any]:
        """Return the regions that the sum reads at a step."""
        others = [each for each in self._factor.realize.block.reads if not each.source.same_as(self._factor.buffer)]
        words = [Range.from_min_extent(index, 1) for index in self._factor.load.indices]
        size = self._storage.words_of_group
        words[self._dimension] = Range.from_min_extent(self._axes[0] * size, size)
        return [*map(self._moved, others), tirx.BufferRegion(self._buffer, words)]

    def _moved(self, region: Any) -> Any:
        """Return a region by the new axes; in a chain it spans the data for all numbers of a word."""
        last = self._storage.numbers_of_word - 1 if self._is_chain else 0

        def moved(bound: Any) -> Any:
            if not mentions(bound.min, self._axis.var):
                return bound
            if not self._is_chain:
                return Range.from_min_extent(substitute(bound.min, {self._axis.var: self._step(self._axes[-1])}), 1)
            begin, end = (substitute(bound.min, {self._axis.var: self._step(place)}) for place in (0, last))
            return Range.from_min_extent(begin, Analyzer().simplify(end - begin + bound.extent))

        return tirx.BufferRegion(region.source, [moved(bound) for bound in region.region])


def _factors(block: Any) -> list[Any]:
    """Return both factors of a block that adds up products; empty for other blocks."""
    store = block.body
    if block.init is None or not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return []
    for own, product in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        is_own = isinstance(own, tvm.ir.TensorLoad) and own.source.same_as(store.buffer)
        if is_own and isinstance(product, tirx.Mul):
            return [product.a, product.b]
    return []


def _with_body(
    block: Any, product: Any, *, reads: Sequence[Any], iters: Sequence[Any] = (), annotations: Any = None
) -> Any:
    """Return a block that adds up another product."""
    result, indices = block.body.buffer, list(block.body.indices)
    store = tirx.BufferStore(result, tirx.BufferLoad(result, indices) + product, indices)
    notes = {**block.annotations, **(annotations or {})}
    return SBlock(iters or block.iter_vars, reads, block.writes, block.name_hint, store, block.init, annotations=notes)


def _replace_block(body: Any, new: Any) -> Any:
    """Return a function's body with another block in place of the one of its name."""

    def changed(realize: Any) -> Any:
        return new if realize.block.name_hint == new.block.name_hint else realize

    return tvm_ffi.structural_map(body, (SBlockRealize, changed))


def _nest(loops: Sequence[Any], sizes: Sequence[Any], body: Any) -> Any:
    for loop, size in reversed(list(zip(loops, sizes, strict=True))):
        extent = tirx.IntImm(INDEX, size) if isinstance(size, int) else size
        body = tirx.For(loop, tirx.IntImm(INDEX, 0), extent, tirx.ForKind.SERIAL, body)
    return body


def _region(buffer: Any, indices: Sequence[Any]) -> Any:
    return tirx.BufferRegion(buffer, [Range.from_min_extent(index, 1) for index in indices])


def _blocks(statement: Any) -> list[Any]:
    """Return the blocks without blocks inside."""
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (SBlockRealize, found.append))
    inner = {id(each): [] for each in found}
    for each in found:
        tvm_ffi.structural_walk(each.block.body, (SBlockRealize, inner[id(each)].append))
    return [each for each in found if not inner[id(each)]]


def _all_loads(expression: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, found.append))
    return found


def _loads(body: Any, buffer: Any) -> list[Any]:
    return [each for each in _all_loads(body) if each.source.same_as(buffer)]
