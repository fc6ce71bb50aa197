"""Sums of products that widen one factor, a parameter that is stored narrow, where they read it.

Numbers with a scale for each group (``storage.py``) lie in words, so the summed axis of ``k`` becomes three: groups,
words of a group and places of a word. With ``q`` the number at a place of a word and ``s`` the scale of a group, a
kernel of several rows computes ::

    for group, word:
        unrolled for place: sums[row, column] += data[row, k] * (q * s)

One of a single row is bound by what it takes to make a number of a word. There the place of a number is masked and not
moved, ``m = q * 16^place``, the data are divided by ``16^place`` beforehand, and a word is multiplied by the scale once::

    for group, word: sums[column] += s * (offset[word] + divided[k] * m + divided[k + 1] * m' + ...)
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

from .accesses import mentions, substitute
from .overlap import INDEX
from .sizes import largest_divisor
from .storage import HALF_BITS, WORD_BITS, Storage

UNROLLED = "passsearch.unrolled_sum"
"""Annotation of a block whose last summing loop is unrolled in a tile: the places in a word must be constants there."""

WIDENED = "passsearch.widened"
"""Annotation of a block that widens one of its factors, for which a tile keeps a register free."""

OFFSETS = "passsearch.offsets"
"""Annotation of a block: the name of a buffer that a sum of products reads beside both of its factors."""

EXPONENT_OF_ONE, MANTISSA_BITS = 127, 23
"""A float32 of these bits of the exponent, behind those of the mantissa, is 1."""

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
        if all(_shares(data, axis) for axis in columns.values()):
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
    def data_dimension(self) -> int | None:
        """The dimension of the data along the sum; ``None`` for data that are no plain float32 array along it."""
        if self.steps is None or not isinstance(self.data, tvm.ir.TensorLoad) or str(self.data.ty) != "float32":
            return None
        axis = self.steps[1].var
        places = [place for place, index in enumerate(self.data.indices) if mentions(index, axis)]
        is_plain = len(places) == 1 and self.data.indices[places[0]].same_as(axis)
        sizes = self.data.source.shape
        return places[0] if is_plain and all(isinstance(size, tirx.IntImm) for size in sizes) else None

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
    body = (
        _Words.of(factor, storage, buffer).body(function.body)
        if storage.group
        else _widen(function.body, factor, storage, buffer)
    )
    if storage.has_column_scales:
        shape = [factor.buffer.shape[each] for each in factor.columns]
        scales = tirx.decl_buffer(shape, "float32", name=f"{factor.buffer.name}_scales")
        params.insert(next(place for place, each in enumerate(params) if each.same_as(buffer)) + 1, scales)
        body = _with_scales(body, factor, scales)
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def is_table(function: Any, place: int) -> bool:
    """Return True if only elementwise blocks read a parameter, as the look-up of an embedding does."""
    buffer = function.params[place]
    readers = [each.block for each in _blocks(function.body) if _loads(each.block.body, buffer)]
    return bool(readers) and all(block.init is None and isinstance(block.body, tirx.BufferStore) for block in readers)


def narrowed_table(function: Any, place: int, storage: Storage) -> Any:
    """Return a function that reads a table in another storage, and after it the scales of its rows if it has any."""
    table = function.params[place]
    buffer = tirx.decl_buffer(list(table.shape), storage.dtype, name=table.name)
    new, params = [buffer], list(function.params)
    if storage.has_column_scales:
        new.append(tirx.decl_buffer(list(table.shape)[:-1], "float32", name=f"{table.name}_scales"))
    params[place : place + 1] = new

    def widened(load: Any) -> Any:
        if not load.source.same_as(table):
            return load
        value = _widened(tirx.BufferLoad(buffer, list(load.indices)), storage)
        return value * tirx.BufferLoad(new[1], list(load.indices)[:-1]) if storage.has_column_scales else value

    def changed(realize: Any) -> Any:
        block = realize.block
        regions = [each.region for each in block.reads if each.source.same_as(table)]
        if not regions:
            return realize
        others = [each for each in block.reads if not each.source.same_as(table)]
        own = [tirx.BufferRegion(each, list(regions[0])[: len(each.shape)]) for each in new]
        body = tvm_ffi.structural_map(block.body, (tvm.ir.TensorLoad, widened))
        notes = block.annotations
        new_block = SBlock(block.iter_vars, [*own, *others], block.writes, block.name_hint, body, annotations=notes)
        return SBlockRealize(realize.iter_values, realize.predicate, new_block)

    body = tvm_ffi.structural_map(function.body, (SBlockRealize, changed))
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def _widened(read: Any, storage: Storage) -> Any:
    """Return a number without its scale as float32."""
    if storage.name == "bfloat16":
        return tirx.reinterpret("float32", tirx.Cast("int32", read) << tirx.const(HALF_BITS, "int32"))
    return tirx.Cast("float32", read)


def _widen(body: Any, factor: Factor, storage: Storage, buffer: Any) -> Any:
    """Return a function's body that reads a factor from another buffer of its shape."""
    block = factor.realize.block
    value = _widened(tirx.BufferLoad(buffer, list(factor.load.indices)), storage)
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
    places = [
        at for each in factor.columns for at, index in enumerate(indices) if index.same_as(factor.load.indices[each])
    ]

    def value(axes: Sequence[Any]) -> Any:
        return tirx.BufferLoad(sums, axes) * tirx.BufferLoad(scales, [axes[place] for place in places])

    statements, place = _statements(body, block.name_hint)
    summing = tvm_ffi.structural_map(
        statements[place], (tvm.ir.Var, lambda each: sums if each.same_as(result) else each)
    )
    statements[place : place + 1] = [summing, _elementwise(f"{block.name_hint}_scale", result, value)]
    return _with_statements(body, statements, [sums])


def _insert_before(body: Any, name: str, nests: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """Return a function's body with loops before those of a block, and with the buffers that they write."""
    statements, place = _statements(body, name)
    statements[place:place] = nests
    return _with_statements(body, statements, buffers)


def _statements(body: Any, name: str) -> tuple[list[Any], int]:
    """Return the loops of a function one after another, and the place of those that have a block of this name."""
    root = body.block
    statements = [*root.body.seq] if isinstance(root.body, tirx.SeqStmt) else [root.body]
    names = [[each.block.name_hint for each in _blocks(statement)] for statement in statements]
    return statements, next(place for place, each in enumerate(names) if name in each)


def _with_statements(body: Any, statements: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """Return a function's body of these loops, with further buffers."""
    root = body.block
    changed = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt(statements),
        alloc_buffers=[*root.alloc_buffers, *buffers],
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
        self._groups = int(self._axis.dom.extent) // storage.group

    @classmethod
    def of(cls, factor: Factor, storage: Storage, buffer: Any) -> _Words:
        """Return the sum that suits the number of rows."""
        return (_WordsOfOneRow if factor.has_one_row and factor.data_dimension is not None else cls)(
            factor, storage, buffer
        )

    @property
    def _sizes(self) -> dict[str, int]:
        """Sizes of the axes, by name."""
        return {
            "group": self._groups,
            "word": self._storage.words_of_group - 1,
            "place": self._storage.numbers_of_word,
        }

    @functools.cached_property
    def _axes(self) -> list[Any]:
        return [tirx.Var(f"{self._axis.var.name}_{name}", INDEX) for name in self._sizes]

    def body(self, body: Any) -> Any:
        """Return a function's body with this sum."""
        realize, block = self._factor.realize, self._factor.realize.block
        place = next(place for place, axis in enumerate(block.iter_vars) if axis.same_as(self._axis))
        loop, sizes = realize.iter_values[place], list(self._sizes.values())
        loops = [tirx.Var(axis.name, INDEX) for axis in self._axes]
        iters, values = list(block.iter_vars), list(realize.iter_values)
        iters[place : place + 1] = [
            tirx.IterVar(Range(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, size)), axis, tirx.IterVar.CommReduce)
            for axis, size in zip(self._axes, sizes, strict=True)
        ]
        values[place : place + 1] = loops
        changed = _with_body(block, self._product(), reads=self._reads(), iters=iters, annotations=self._annotations())
        body = _replace_block(body, SBlockRealize(values, realize.predicate, changed))

        def split(each: Any) -> Any:
            return _nest(loops, sizes, each.body) if each.loop_var.same_as(loop) else each

        return tvm_ffi.structural_map(body, (tirx.For, split))

    def _annotations(self) -> dict[str, Any]:
        return {UNROLLED: True}

    def _product(self) -> Any:
        """Return a value of the data times a number, which is the place of a word that is moved to both of its ends."""
        group, word, place = self._axes
        bits = tirx.const(WORD_BITS - self._storage.bits, "int32")
        left = bits - tirx.Cast("int32", place) * self._storage.bits
        signed = self._word(word) ^ tirx.const(self._storage.signs, "int32")
        number = tirx.Cast("float32", (signed << left) >> bits)
        return substitute(self._factor.data, {self._axis.var: self._step(place)}) * (number * self._scale())

    def _step(self, place: Any) -> Any:
        group, word, *_ = self._axes
        return group * self._storage.group + word * self._storage.numbers_of_word + place

    def _scale(self) -> Any:
        return tirx.reinterpret("float32", self._word(self._storage.words_of_group - 1))

    def _word(self, word: Any) -> Any:
        indices = list(self._factor.load.indices)
        indices[self._dimension] = self._axes[0] * self._storage.words_of_group + word
        return tirx.BufferLoad(self._buffer, indices)

    def _words_region(self) -> Any:
        words = [Range.from_min_extent(index, 1) for index in self._factor.load.indices]
        size = self._storage.words_of_group
        words[self._dimension] = Range.from_min_extent(self._axes[0] * size, size)
        return tirx.BufferRegion(self._buffer, words)

    def _reads(self) -> list[Any]:
        """Return the regions that the sum reads at a step."""
        others = [each for each in self._factor.realize.block.reads if not each.source.same_as(self._factor.buffer)]
        step = {self._axis.var: self._step(self._axes[-1])}
        moved = [
            tirx.BufferRegion(
                each.source, [Range.from_min_extent(substitute(bound.min, step), bound.extent) for bound in each.region]
            )
            for each in others
        ]
        return [*moved, self._words_region()]


class _WordsOfOneRow(_Words):
    """A sum that masks numbers where they are in a word, and reads data that are divided by that power of two.

    Two blocks before the sum divide the data, and add up what is to be subtracted because all numbers of a word but the
    last one are stored as if they had no sign.
    """

    @property
    def _sizes(self) -> dict[str, int]:
        return {"group": self._groups, "word": self._storage.words_of_group - 1}

    def body(self, body: Any) -> Any:
        """Return a function's body with this sum and both blocks."""
        name, count = self._factor.realize.block.name_hint, self._storage.numbers_of_word
        data, dimension = self._factor.data, self._factor.data_dimension
        assert dimension is not None

        def divided(axes: Sequence[Any]) -> Any:
            exponent = tirx.Cast("int32", axes[dimension] % count) * self._storage.bits
            bits = (tirx.const(EXPONENT_OF_ONE, "int32") - exponent) << tirx.const(MANTISSA_BITS, "int32")
            return tirx.BufferLoad(data.source, axes) * tirx.reinterpret("float32", bits)

        def offset(axes: Sequence[Any]) -> Any:
            begin = axes[dimension] * count
            values = [
                tirx.BufferLoad(data.source, [*axes[:dimension], begin + place, *axes[dimension + 1 :]])
                for place in range(count - 1)
            ]
            return functools.reduce(operator.add, values) * tirx.const(-self._storage.offset, "float32")

        nests = [
            _elementwise(f"{name}_data", self._divided, divided),
            _elementwise(f"{name}_offsets", self._offsets, offset),
        ]
        return _insert_before(super().body(body), name, nests, [self._divided, self._offsets])

    @functools.cached_property
    def _divided(self) -> Any:
        data = self._factor.data.source
        return tirx.decl_buffer(list(data.shape), "float32", name=f"{data.name}_divided")

    @functools.cached_property
    def _offsets(self) -> Any:
        data, shape = self._factor.data.source, list(self._factor.data.source.shape)
        assert self._factor.data_dimension is not None
        shape[self._factor.data_dimension] = tirx.IntImm(INDEX, self._groups * (self._storage.words_of_group - 1))
        return tirx.decl_buffer(shape, "float32", name=f"{data.name}_offsets")

    def _annotations(self) -> dict[str, Any]:
        return {OFFSETS: self._offsets.name}

    def _at(self, index: Any) -> list[Any]:
        """Return the indices of the data with another one along the sum."""
        indices = list(self._factor.data.indices)
        indices[self._factor.data_dimension] = index
        return indices

    def _offset_index(self) -> Any:
        group, word = self._axes
        return group * (self._storage.words_of_group - 1) + word

    def _product(self) -> Any:
        terms = [tirx.BufferLoad(self._offsets, self._at(self._offset_index()))]
        for place in range(self._storage.numbers_of_word):
            masked = self._word(self._axes[1]) & tirx.const(self._storage.mask(place), "int32")
            terms.append(tirx.BufferLoad(self._divided, self._at(self._step(place))) * tirx.Cast("float32", masked))
        return self._scale() * functools.reduce(operator.add, terms)

    def _reads(self) -> list[Any]:
        divided = [Range.from_min_extent(index, 1) for index in self._at(self._step(0))]
        assert self._factor.data_dimension is not None
        count = self._storage.numbers_of_word
        divided[self._factor.data_dimension] = Range.from_min_extent(self._step(0), count)
        offsets = _region(self._offsets, self._at(self._offset_index()))
        return [tirx.BufferRegion(self._divided, divided), self._words_region(), offsets]


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


def _shares(data: Any, axis: Any) -> bool:
    """Return True if data are read at every index of an axis, and not at one for each group of its members."""
    divided: list[Any] = []
    tvm_ffi.structural_walk(data, (tirx.FloorDiv, divided.append))
    is_of_groups = any(
        mentions(each.a, axis) and int(each.b) > 1 for each in divided if isinstance(each.b, tirx.IntImm)
    )
    return mentions(data, axis) and not is_of_groups


def _with_body(
    block: Any, product: Any, *, reads: Sequence[Any], iters: Sequence[Any] = (), annotations: Any = None
) -> Any:
    """Return a block that adds up another product."""
    result, indices = block.body.buffer, list(block.body.indices)
    store = tirx.BufferStore(result, tirx.BufferLoad(result, indices) + product, indices)
    notes = {**block.annotations, WIDENED: True, **(annotations or {})}
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
