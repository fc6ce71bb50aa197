"""Sums of products of integers: narrow weights, and activations that are rounded to 8 bits before the sum.

With ``s`` the scale of a group of weights, and ``t`` that of the same numbers of a row of activations, which is their
largest magnitude divided by 127, a kernel computes ::

    for row, group: t, 32 integers = rounded(data[row, group])
    for group: sums[row, column] += s * (t * float32(sum of 32 products of integers))

The words of a group of activations, and behind them what the offsets of weights without a sign add to the sum, and the
scale, lie one after another. So a product reads one stream of them, too.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize

from .dot_operator import dot
from .edits import KEPT, STEP_ELEMENTS, WIDENED, insert_before, nest
from .overlap import INDEX
from .storage import BYTES
from .words import Words

LARGEST = 127
"""Largest magnitude of an integer of activations."""

LANES = 8
"""Numbers and words of activations that are rounded at a time."""

LEAST = 1e-30
"""Magnitude from which activations are not rounded to zero: 127 over a smaller one may be infinite."""

FREE = 7
"""Registers for the words of activations, which all vectors of a tile read: 4 vectors of one row keep their sums."""

MAGNITUDE = 0x7FFFFFFF
"""The bits of a float32 without its sign. As integers, they are in the order of the magnitudes."""


class IntegerWords(Words):
    """A sum of products of integers over groups, with a block before it that rounds the data."""

    @property
    def _sizes(self) -> dict[str, int]:
        return {"group": self._groups}

    @property
    def _stride(self) -> int:
        """Words of a group of activations, with its offset and its scale."""
        return self._storage.step // BYTES + 2

    @functools.cached_property
    def _rounded(self) -> Any:
        data = self._factor.data.source
        shape = [*list(data.shape)[:-1], tirx.IntImm(INDEX, self._groups * self._stride)]
        return tirx.decl_buffer(shape, "int32", name=f"{data.name}_rounded")

    def body(self, body: Any) -> Any:
        """Return a function's body with this sum and the block."""
        name = self._factor.realize.block.name_hint
        return insert_before(super().body(body), name, [self._rounding(f"{name}_rounding")], [self._rounded])

    def _annotations(self) -> dict[str, Any]:
        return {STEP_ELEMENTS: self._storage.words_of_group, WIDENED: FREE}

    def _activation(self, word: int) -> Any:
        indices = list(self._factor.data.indices)
        return tirx.BufferLoad(self._rounded, [*indices[:-1], self._axes[0] * self._stride + word])

    def _product(self) -> Any:
        count = self._storage.step // self._storage.numbers_of_word
        words = [self._word(tirx.IntImm(INDEX, each)) for each in range(count)]
        *activations, offset, scale = map(self._activation, range(self._stride))
        total = dot(self._storage.name, words, activations)
        if self._storage.signs:
            total = total + offset
        product = tirx.reinterpret("float32", scale) * tirx.Cast("float32", total)
        return self._scale() * product if self._storage.group else product

    def _reads(self) -> list[Any]:
        indices = list(self._factor.data.indices)
        begin = Range.from_min_extent(self._axes[0] * self._stride, self._stride)
        rows = [Range.from_min_extent(index, 1) for index in indices[:-1]]
        return [tirx.BufferRegion(self._rounded, [*rows, begin]), self._words_region()]

    def _rounding(self, name: str) -> Any:
        """Return the loops that round a group of the data at a time."""
        data, step = self._factor.data.source, self._storage.step
        sizes = [*list(data.shape)[:-1], tirx.IntImm(INDEX, self._groups)]
        axes, loops = ([tirx.Var(f"{letter}{at}", INDEX) for at, _ in enumerate(sizes)] for letter in "vi")
        bounds = [Range(tirx.IntImm(INDEX, 0), size) for size in sizes]
        iters = [tirx.IterVar(each, axis, tirx.IterVar.DataPar) for each, axis in zip(bounds, axes, strict=True)]
        rows = [Range.from_min_extent(axis, 1) for axis in axes[:-1]]
        reads, writes = (
            tirx.BufferRegion(buffer, [*rows, Range.from_min_extent(axes[-1] * size, size)])
            for buffer, size in ((data, step), (self._rounded, self._stride))
        )
        buffers = (("int32", "largest", LANES), ("int32", "total", LANES), ("float32", "inverse", 1))
        largest, total, inverse = (
            tirx.decl_buffer([count], dtype, name=f"{name}_{what}") for dtype, what, count in buffers
        )
        block = SBlock(
            iters,
            [reads],
            [writes],
            name,
            self._rounded_group(axes, largest, total, inverse),
            alloc_buffers=[largest, total, inverse],
            annotations={KEPT: True},
        )
        return nest(loops, sizes, SBlockRealize(loops, True, block))

    def _rounded_group(self, axes: Sequence[Any], largest: Any, total: Any, inverse: Any) -> Any:
        """Return the statements that round one group, ``LANES`` numbers or words at a time.

        Args:
            axes: The indices of the rows, and that of the group.
            largest: Holds the bits of the largest magnitude of each lane, and then of all in the first.
            total: Holds the sums of the integers of each lane, and then of all in the first.
            inverse: Holds the factor of the data.
        """
        *row, group = axes
        step, words = self._storage.step, self._storage.step // BYTES

        def value(place: Any) -> Any:
            return tirx.BufferLoad(self._factor.data.source, [*row, group * step + place])

        def store(word: Any, result: Any) -> Any:
            return tirx.BufferStore(self._rounded, result, [*row, group * self._stride + word])

        def held(buffer: Any, lane: Any = 0) -> Any:
            return tirx.BufferLoad(buffer, [lane])

        def in_lanes(count: int, statement: Callable[[Any, Any], Any]) -> Any:
            """Return a loop of a statement for every place, and its lane, in vectors."""
            lanes = math.gcd(count, LANES)
            vector, lane = tirx.Var("vector", INDEX), tirx.Var("lane", INDEX)
            body = tirx.For(lane, 0, lanes, tirx.ForKind.VECTORIZED, statement(vector * lanes + lane, lane))
            return nest([vector], [count // lanes], body)

        def filled(buffer: Any) -> Any:
            return in_lanes(LANES, lambda place, _: tirx.BufferStore(buffer, tirx.const(0, "int32"), [place]))

        def gathered(buffer: Any, combine: Callable[[Any, Any], Any]) -> Any:
            return tirx.BufferStore(buffer, functools.reduce(combine, (held(buffer, at) for at in range(LANES))), [0])

        def larger(place: Any, lane: Any) -> Any:
            bits = tirx.reinterpret("int32", value(place)) & tirx.const(MAGNITUDE, "int32")
            return tirx.BufferStore(largest, tirx.max(held(largest, lane), bits), [lane])

        def packed(word: Any, lane: Any) -> Any:
            integers = [
                tirx.Cast("int32", tirx.nearbyint(value(word + byte * words) * held(inverse))) for byte in range(BYTES)
            ]
            parts = [
                (each & tirx.const(255, "int32")) << tirx.const(8 * byte, "int32") for byte, each in enumerate(integers)
            ]
            added = functools.reduce(operator.add, integers, held(total, lane))
            return tirx.SeqStmt(
                [store(word, functools.reduce(operator.or_, parts)), tirx.BufferStore(total, added, [lane])]
            )

        magnitude = tirx.reinterpret("float32", held(largest))
        most = tirx.const(LARGEST, "float32")
        quotient = tirx.Select(magnitude < LEAST, tirx.const(0.0, "float32"), most / magnitude)
        return tirx.SeqStmt(
            [
                filled(largest),
                in_lanes(step, larger),
                gathered(largest, tirx.max),
                tirx.BufferStore(inverse, quotient, [0]),
                filled(total),
                in_lanes(words, packed),
                gathered(total, operator.add),
                store(words, held(total) * tirx.const(-self._storage.offset, "int32")),
                store(words + 1, tirx.reinterpret("int32", magnitude / most)),
            ]
        )
