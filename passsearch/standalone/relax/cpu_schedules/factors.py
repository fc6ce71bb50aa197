"""Weights that are a factor of a sum of products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .accesses import mentions
from .edits import leaf_blocks, loads_of
from .sizes import all_divisors, largest_divisor
from .storage import Storage

LEAST_GROUP, MOST_GROUP = 16, 256
"""Least and most numbers that share a scale."""

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
        readers = [each for each in leaf_blocks(function.body) if loads_of(each.block.body, buffer)]
        if len(readers) != 1:
            return f"{len(readers)} blocks of the kernel read them"
        (realize,) = readers
        factors = _factors(realize.block)
        loads = [each for each in factors if isinstance(each, tvm.ir.TensorLoad) and each.source.same_as(buffer)]
        if len(loads) != 1 or len(loads_of(realize.block.body, buffer)) != 1:
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
        """True if each number is used once: every axis of the result is one of the parameter's, or of size 1."""
        return self.rows == 1

    @property
    def rows(self) -> int | None:
        """How often each number is used: the size of the result's axes that are not the parameter's, if it is known."""
        axes = [axis for axis in self.realize.block.iter_vars if axis.iter_type != tirx.IterVar.CommReduce]
        sizes = [axis.dom.extent for axis in axes if not any(index.same_as(axis.var) for index in self.load.indices)]
        return math.prod(map(int, sizes)) if all(isinstance(size, tirx.IntImm) for size in sizes) else None

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
    def has_contiguous_data(self) -> bool:
        """True if neighbours along the sum are neighbours in the data, a plain float32 array."""
        return self.data_dimension is not None and self.data_dimension == len(self.data.indices) - 1

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
        """Return the largest group up to that of a storage which divides the sum, or the next one; 0 without any."""
        if self.steps is None:
            return 0
        words, rest = divmod(int(self.steps[1].dom.extent), storage.numbers_of_word)
        if rest:
            return 0
        most = storage.step // storage.numbers_of_word
        divisors = [largest_divisor(words, most), *(each for each in all_divisors(words) if each > most)]
        groups = [each * storage.numbers_of_word for each in divisors]
        return next((each for each in groups if LEAST_GROUP <= each <= MOST_GROUP), 0)


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
