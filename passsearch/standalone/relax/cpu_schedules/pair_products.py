"""The pass that adds up products of integers in pairs.

A sum over ``k`` of products of 8-bit numbers becomes one over pairs, which ``vpmaddwd`` takes at once::

    for i, k: wide[i, k] = int16(data[i, k])
    for i, j, pair:
        sums[i, j] += wide[i, 2 * pair] * weights[pair, j].low + wide[i, 2 * pair + 1] * weights[pair, j].high

Constant weights of 8 bits stay in that size: a word of 16 bits has two of them. Data without a sign and such weights
are taken four at a time and are not widened, if the processor has an instruction for it (``quad_operator.py``).
``ScheduleCPU`` then finds a sum of products of words. Where sums are float32, as those of depthwise convolutions, only
the data are widened beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.sym import detect_linear_equation
from tvm.target.codegen import target_has_features

from .accesses import mentions, substitute
from .constants import constant_arguments, digest, replace_functions, tensor, values_of
from .cpu_pass import cpu_pass, unscheduled
from .edits import WIDENED, elementwise, insert_before, leaf_blocks, replace_block
from .overlap import INDEX
from .pair_operator import pair
from .product_groups import ProductGroups
from .quad_operator import NUMBERS, quads_of
from .sizes import part_count

WIDE_SUMS = "passsearch.wide_sums"
"""Annotation of a block whose sums have 32 bits, whatever the results of the function have."""

SUM_BITS = 32
"""Bits of such a sum."""

INTEGERS = ("int8", "uint8", "int16")
"""Types of the factors."""


def PairProducts() -> Any:  # noqa: N802
    """Return a pass that adds up products of 8-bit integers in groups of two, four or eight; other functions stay."""

    def change(module: Any, _registers: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        is_x86, quads = bool(target_has_features("sse2", target)), quads_of(target)
        arguments = constant_arguments(module)
        changed = {}
        for name, function in unscheduled(module):
            constants = frozenset(arguments.get(name.name_hint, {}))
            if (product := _Product.find(function, constants)) is not None:
                values = [
                    values_of(each.value) for each in arguments.get(name.name_hint, {}).get(product.weights.place, ())
                ]
                changed[name.name_hint] = product.changed(values, quads=quads, is_x86=is_x86)
        return _replaced(module, changed) if changed else module

    return cpu_pass(change, name="PairProducts")


@dataclass(frozen=True)
class _Changed:
    """A function, and the new values of its constant arguments by place."""

    function: Any
    arrays: Mapping[int, Callable[[Any], Any]]


@dataclass(frozen=True)
class _Factor:
    """One factor of a product.

    Attributes:
        load: The read.
        place: Place of the parameter that is read if it is constant in all calls, else -1.
    """

    load: Any
    place: int

    @property
    def buffer(self) -> Any:
        return self.load.source

    @property
    def dtype(self) -> str:
        return str(self.buffer.dtype)

    def dimension(self, axis: Any) -> int | None:
        """Return the dimension in whose index neighbours along an axis are neighbours; ``None`` without one."""
        found = [place for place, index in enumerate(self.load.indices) if mentions(index, axis.var)]
        if len(found) != 1:
            return None
        factors = detect_linear_equation(self.load.indices[found[0]], [axis.var])
        return found[0] if factors and isinstance(factors[0], tirx.IntImm) and int(factors[0]) == 1 else None

    def is_alone(self, axis: Any, dimension: int) -> bool:
        """Return True if the index of a dimension is the axis."""
        return bool(self.load.indices[dimension].same_as(axis.var))

    def at(self, axis: Any, step: Any) -> list[Any]:
        """Return the indices at another place of the axis."""
        return [substitute(index, {axis.var: step}) for index in self.load.indices]


@dataclass(frozen=True)
class _Product:
    """A sum of products of integers in a function.

    Attributes:
        function: The function.
        realize: The block of the sum.
        data: The factor that is widened.
        weights: The other one, constant weights if there are any.
    """

    function: Any
    realize: Any
    data: _Factor
    weights: _Factor

    @classmethod
    def find(cls, function: Any, constants: frozenset[int]) -> _Product | None:
        """Return the only sum of products of integers; ``None`` if there is none, or more than one."""
        sums = [each for each in leaf_blocks(function.body) if each.block.init is not None]
        if len(sums) != 1:
            return None
        (realize,) = sums
        loads = _factors(realize.block)
        if loads is None:
            return None
        params = list(function.params)

        def factor(load: Any) -> _Factor:
            place = next((at for at, each in enumerate(params) if each.same_as(load.source)), -1)
            return _Factor(load, place if place in constants else -1)

        data, weights = map(factor, loads)
        if data.place >= 0 > weights.place:
            data, weights = weights, data
        return cls(function, realize, data, weights) if data.dtype in INTEGERS else None

    def changed(self, values: Sequence[Any], *, quads: str, is_x86: bool) -> _Changed:
        """Return the function with its sum over groups.

        Args:
            values: The constant weights of every call.
            quads: The operator of words of four numbers, empty for none.
            is_x86: True for the operator of x86 on pairs.
        """
        if str(self.realize.block.body.buffer.dtype) == "float32":
            return self._with_floats()
        found = self._pair_axis()
        if found is None:
            return _Changed(self.function, {})
        axis, data_dimension, weights_dimension = found
        size = int(axis.dom.extent)
        can_fill = size % NUMBERS == 0 or self.data.is_alone(axis, data_dimension)
        can_multiply = can_fill and (self.data.dtype, self.weights.dtype) == ("uint8", "int8")
        groups = ProductGroups.choose(values, weights_dimension, quads=quads if can_multiply else "", is_x86=is_x86)
        wide, nests, buffers = self._widened(data_dimension, size, groups)
        words, place, own = self._words(weights_dimension, size, groups)
        if own is not None:
            nests, buffers = [*nests, own], [*buffers, words]
        block = self._with_groups(axis, (data_dimension, weights_dimension), wide=wide, words=words, groups=groups)
        body = _shortened(self._with_block(block), self._loop(axis), part_count(size, groups.numbers))
        if nests:
            body = insert_before(body, block.name_hint, nests, buffers)
        arrays = {place: lambda array: groups.words_of(array, weights_dimension)} if place >= 0 else {}
        params = [words if at == place else each for at, each in enumerate(self.function.params)]
        return _Changed(tirx.PrimFunc(params, body, self.function.ret_type, self.function.attrs), arrays)

    def _with_groups(
        self, axis: Any, dimensions: tuple[int, int], *, wide: Any, words: Any, groups: ProductGroups
    ) -> Any:
        """Return the block with a sum over groups.

        Args:
            axis: The axis of the groups.
            dimensions: Its dimensions in the data and in the weights.
            wide: The data, in whole groups.
            words: The words of the weights.
            groups: What a group is.
        """
        block, numbers = self.realize.block, groups.numbers
        data = [self.data.at(axis, axis.var * numbers + place) for place in range(numbers)]
        first = axis.var * groups.words if groups.words > 1 else axis.var
        factors = [self.weights.at(axis, first + place if place else first) for place in range(groups.words)]
        store = block.body
        total = groups.added(
            tirx.BufferLoad(store.buffer, list(store.indices)),
            [tirx.BufferLoad(wide, each) for each in data],
            [tirx.BufferLoad(words, each) for each in factors],
        )
        bounds = Range(tirx.IntImm(INDEX, 0), tirx.IntImm(INDEX, part_count(int(axis.dom.extent), numbers)))
        iters = [
            tirx.IterVar(bounds, each.var, each.iter_type) if each.same_as(axis) else each for each in block.iter_vars
        ]
        is_widened = str(words.dtype) == "int16" and self.weights.place >= 0
        notes = {WIDENED: spare} if (spare := groups.spare_registers + int(is_widened)) else {}
        pairs = zip((wide, words), (data[0], factors[0]), dimensions, (numbers, groups.words), strict=True)
        return _with_value(block, total, reads=[_stretch(*each) for each in pairs], iters=iters, notes=notes)

    def _with_block(self, block: Any) -> Any:
        """Return the function's body with another block of the sum."""
        realize = SBlockRealize(self.realize.iter_values, self.realize.predicate, block)
        return replace_block(self.function.body, realize)

    def _loop(self, axis: Any) -> Any:
        """Return the variable of the loop over an axis."""
        pairs = zip(self.realize.block.iter_vars, self.realize.iter_values, strict=True)
        return next(value for each, value in pairs if each.same_as(axis))

    def _pair_axis(self) -> tuple[Any, int, int] | None:
        """Return the axis of the pairs, and its dimension in both factors; the one that is contiguous in the data."""
        found = []
        for axis in self.realize.block.iter_vars:
            if axis.iter_type != tirx.IterVar.CommReduce or not isinstance(axis.dom.extent, tirx.IntImm):
                continue
            data, weights = self.data.dimension(axis), self.weights.dimension(axis)
            if data is None or weights is None or not self.weights.is_alone(axis, weights):
                continue
            if int(axis.dom.extent) % 2 and not self.data.is_alone(axis, data):
                continue
            is_last = data == len(self.data.buffer.shape) - 1
            found.append((is_last, int(axis.dom.extent), axis, data, weights))
        if not found:
            return None
        return max(found, key=lambda each: each[:2])[2:]

    def _widened(self, dimension: int, size: int, groups: ProductGroups) -> tuple[Any, list[Any], list[Any]]:
        """Return a buffer of the data in whole groups, the loops that write it, and new buffers."""
        source, behind = self.data.buffer, -size % groups.numbers
        if self.data.dtype == groups.dtype and not behind:
            return source, [], []
        shape = list(source.shape)
        shape[dimension] = shape[dimension] + behind
        wide = tirx.decl_buffer(shape, groups.dtype, name=f"{source.name}_wide")

        def value(axes: Any) -> Any:
            read = tirx.BufferLoad(source, list(axes)).astype(groups.dtype)
            if not behind:
                return read
            return tirx.if_then_else(axes[dimension] < size, read, tirx.const(0, groups.dtype))

        return wide, [elementwise(wide.name, wide, value)], [wide]

    def _words(self, dimension: int, size: int, groups: ProductGroups) -> tuple[Any, int, Any]:
        """Return a buffer of words of the weights, the place of its parameter, or the loops that write it."""
        source, place = self.weights.buffer, self.weights.place
        shape = list(source.shape)
        shape[dimension] = tirx.IntImm(INDEX, part_count(size, groups.numbers) * groups.words)
        if place >= 0:
            dtype = "int16" if self.weights.dtype == "int8" and not groups.operator else "int32"
            return tirx.decl_buffer(shape, dtype, name=source.name), place, None
        words = tirx.decl_buffer(shape, "int32", name=f"{source.name}_pairs")

        def value(axes: Any) -> Any:
            halves = []
            for half in (0, 1):
                indices = list(axes)
                indices[dimension] = axes[dimension] * 2 + half
                read = tirx.BufferLoad(source, indices).astype("int16")
                if half and size % 2:
                    read = tirx.if_then_else(indices[dimension] < size, read, tirx.const(0, "int16"))
                halves.append(read)
            return pair(*halves)

        return words, -1, elementwise(words.name, words, value)

    def _with_floats(self) -> _Changed:
        """Return the function with its data in float32 before the sum."""
        source, block = self.data.buffer, self.realize.block
        wide = tirx.decl_buffer(list(source.shape), "float32", name=f"{source.name}_wide")
        nest = elementwise(wide.name, wide, lambda axes: tirx.BufferLoad(source, list(axes)).astype("float32"))
        read = tirx.BufferLoad(wide, list(self.data.load.indices))
        factor = tirx.BufferLoad(self.weights.buffer, list(self.weights.load.indices))
        reads = [tirx.BufferRegion(wide, each.region) if each.source.same_as(source) else each for each in block.reads]
        store = block.body
        total = tirx.BufferLoad(store.buffer, list(store.indices)) + read * factor
        body = self._with_block(_with_value(block, total, reads=reads, iters=block.iter_vars, notes={}))
        body = insert_before(body, block.name_hint, [nest], [wide])
        return _Changed(tirx.PrimFunc(self.function.params, body, self.function.ret_type, self.function.attrs), {})


def _with_value(block: Any, value: Any, *, reads: Any, iters: Any, notes: Mapping[str, Any]) -> Any:
    """Return a block that stores another value, and has vectors of 32-bit sums."""
    store = tirx.BufferStore(block.body.buffer, value, list(block.body.indices))
    notes = {**block.annotations, **notes, WIDE_SUMS: True}
    return SBlock(iters, reads, block.writes, block.name_hint, store, block.init, annotations=notes)


def _shortened(body: Any, variable: Any, size: int) -> Any:
    """Return a function's body with another size of a loop."""

    def changed(loop: Any) -> Any:
        if not loop.loop_var.same_as(variable):
            return loop
        return tirx.For(loop.loop_var, loop.min, tirx.IntImm(INDEX, size), loop.kind, loop.body)

    return tvm_ffi.structural_map(body, (tirx.For, changed))


def _factors(block: Any) -> tuple[Any, Any] | None:
    """Return what a block reads to add up products of integers; ``None`` for other blocks."""
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    own, product = store.value.a, store.value.b
    if not (isinstance(own, tvm.ir.TensorLoad) and own.source.same_as(store.buffer) and isinstance(product, tirx.Mul)):
        return None
    dtype = str(store.buffer.dtype)
    loads = [each.value if isinstance(each, tirx.Cast) else each for each in (product.a, product.b)]
    if dtype not in ("int32", "float32") or not all(isinstance(each, tvm.ir.TensorLoad) for each in loads):
        return None
    types = [str(each.source.dtype) for each in loads]
    allowed = [INTEGERS, INTEGERS if dtype == "int32" else ("float32",)]
    return (loads[0], loads[1]) if all(each in every for each, every in zip(types, allowed, strict=True)) else None


def _stretch(buffer: Any, indices: Sequence[Any], dimension: int, size: int) -> Any:
    """Return the region of neighbours from an element on."""
    region = [Range.from_min_extent(index, 1) for index in indices]
    region[dimension] = Range.from_min_extent(indices[dimension], size)
    return tirx.BufferRegion(buffer, region)


def _replaced(module: Any, changed: Mapping[str, _Changed]) -> Any:
    """Return the module with these functions in place of those of the same names, and with their new constants."""
    stored: dict[Any, Any] = {}  # calls with equal weights share them

    def arguments_of(name: str, place: int, argument: Any) -> list[Any]:
        change = changed[name].arrays.get(place)
        if change is None:
            return [argument]
        values = change(values_of(argument.value))
        key = (digest(values), values.shape, str(values.dtype))
        if key not in stored:
            stored[key] = relax.const(tensor(values))
        return [stored[key]]

    return replace_functions(module, {name: each.function for name, each in changed.items()}, arguments_of)
