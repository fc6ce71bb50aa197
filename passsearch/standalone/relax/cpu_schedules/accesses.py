"""The indices with which a block reads or writes a buffer, and the layouts that change them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx
from tvm.sym import Analyzer, detect_linear_equation

from .sizes import part_count

BYTE = 8
"""Bits of a byte."""


@dataclass(frozen=True)
class Packing:
    """A layout: one dimension of an array is split; the outer part becomes the first dimension, the inner the last.

    Where the size is no multiple of the inner part's, the last inner part repeats elements of the one before.

    Attributes:
        dimension: The dimension to split.
        size: Its size.
        width: Size of its inner part, at most ``size``.
    """

    dimension: int
    size: int
    width: int

    @property
    def count(self) -> int:
        """Number of inner parts."""
        return part_count(self.size, self.width)

    @property
    def repeats(self) -> bool:
        """True if the last inner part repeats elements."""
        return self.size % self.width > 0

    def index(self, *indices: Any) -> list[Any]:
        """Return the new indices of an element.

        In a last inner part that repeats elements they are too small; ``read_repeated_columns`` corrects them.
        """
        split = indices[self.dimension]
        others = [index for place, index in enumerate(indices) if place != self.dimension]
        return [split // self.width, *others, split % self.width]

    def array(self, array: Any) -> Any:
        """Return the array in this layout, as a view where no elements repeat."""
        moved = np.moveaxis(array, self.dimension, 0)
        if self.repeats:
            begins = np.minimum(np.arange(self.count) * self.width, self.size - self.width)
            moved = moved[(begins[:, None] + np.arange(self.width)).ravel()]
        parts = moved.reshape(-1, self.width, *moved.shape[1:])
        return np.moveaxis(parts, 1, -1)


class Access:
    """The indices with which a block reads or writes one buffer."""

    def __init__(self, region: Any, place: int) -> None:
        self.buffer, self.place = region.source, place
        self._indices = [bounds.min for bounds in region.region]

    @property
    def size(self) -> int:
        """Number of elements of the buffer."""
        return math.prod(int(size) for size in self.buffer.shape)

    @property
    def bytes(self) -> int:
        """Size of the buffer; sizes below a byte count as none."""
        return self.size * (element_bits(self.buffer.dtype) // BYTE)

    def has(self, axis: Any) -> bool:
        """Return True if an index depends on an axis of the block."""
        return any(mentions(index, axis.var) for index in self._indices)

    def dimension(self, axis: Any) -> int | None:
        """Return the dimension whose index is an axis alone, ``None`` if there is no such dimension."""
        places = (place for place, index in enumerate(self._indices) if index.same_as(axis.var))
        return next(places, None)

    def divisors(self, axis: Any) -> set[int]:
        """Return the numbers by which an axis is divided in the indices."""
        divisors: set[int] = set()

        def visit(quotient: Any) -> None:
            if quotient.a.same_as(axis.var) and isinstance(quotient.b, tirx.IntImm):
                divisors.add(int(quotient.b))

        for index in self._indices:
            tvm_ffi.structural_walk(index, (tirx.FloorDiv, visit))
        return divisors

    def span(self, axis: Any, reduced: list[Any]) -> Callable[[int], int]:
        """Return the function from a number of elements along an axis of the output to those that are read for them."""
        variables = [axis.var, *(other.var for other in reduced)]
        for index in self._indices:
            if mentions(index, axis.var) and (factors := detect_linear_equation(index, variables)):
                step, *steps = [int(factor) for factor in factors[:-1]]
                rest = sum(factor * (other.dom - 1) for factor, other in zip(steps, reduced, strict=True))
                return lambda size: step * (size - 1) + rest + 1
        return lambda size: size

    def stride_bytes(self, axis: Any) -> int:
        """Return the distance of two neighbours along an axis."""
        steps, size = 0, element_bits(self.buffer.dtype) // BYTE
        for index, extent in zip(reversed(self._indices), reversed(self.buffer.shape), strict=True):
            factors = detect_linear_equation(index, [axis.var]) if mentions(index, axis.var) else None
            steps += int(factors[0]) * size if factors else 0
            size *= int(extent)
        return steps

    def has_unit_stride(self, axis: Any) -> bool:
        """Return True if neighbours along an axis are neighbours in memory and every index is linear in it."""
        return self.stride_bytes(axis) == element_bits(self.buffer.dtype) // BYTE > 0

    def is_contiguous(self, axis: Any) -> bool:
        """Return True if only the innermost index depends on an axis, or neighbours along it are neighbours in memory.

        After a reshape, for example, several indices depend on the axis.
        """
        if not self._indices:  # a single number
            return False
        *outer, last = self._indices
        if not any(mentions(index, axis.var) for index in outer):
            return mentions(last, axis.var)
        place = 0
        for index, size in zip(self._indices, self.buffer.shape, strict=True):
            place = place * size + index
        distance = substitute(place, {axis.var: axis.var + 1}) - place
        return bool(Analyzer().can_prove_equal(distance, tirx.IntImm("int64", 1)))


def element_bits(dtype: Any) -> int:
    """Return the number of bits of an element; a boolean takes a byte."""
    bits = re.search(r"\d+", str(dtype))
    return int(bits[0]) if bits else 8


def mentions(expression: Any, variable: Any) -> bool:
    """Return True if a variable is in an expression."""
    variables: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, variables.append))
    return any(other.same_as(variable) for other in variables)


def substitute(expression: Any, values: dict[Any, Any]) -> Any:
    """Return an expression with values in place of variables."""

    def value_of(variable: Any) -> Any:
        return next((value for other, value in values.items() if other.same_as(variable)), variable)

    return tvm_ffi.structural_map(expression, (tvm.ir.Var, value_of))


def count_reads(body: Any, buffer: Any = None) -> int:
    """Count the reads in the body of a block, of one buffer or of all."""
    reads: list[Any] = []
    tvm_ffi.structural_walk(body, (tvm.ir.TensorLoad, reads.append))
    return sum(buffer is None or read.source.same_as(buffer) for read in reads)


def count_bindings(statement: Any) -> int:
    """Count the variables that are bound inside expressions."""
    bindings: list[Any] = []
    tvm_ffi.structural_walk(statement, (tirx.Let, bindings.append))
    return len(bindings)
