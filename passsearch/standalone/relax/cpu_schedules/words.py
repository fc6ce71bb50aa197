"""Sums of products that widen numbers in words.

Numbers with a scale for each group (``storage.py``) lie in words, so the summed axis of ``k`` becomes three: groups,
words of a group and places of a word. With ``q`` the number at a place of a word and ``s`` the scale of a group, a
kernel of several rows computes ::

    for group, word:
        unrolled for place: sums[row, column] += data[row, k] * (q * s)

One of a single row is bound by what it takes to make a number of a word. There the place of a number is masked and not
moved, ``m = q * 16^place``, the data are divided by ``16^place`` beforehand, and a word is multiplied by the scale
once::

    for group, word: sums[column] += s * (offset[word] + divided[k] * m + divided[k + 1] * m' + ...)
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlockRealize

from .accesses import substitute
from .edits import elementwise, insert_before, nest, region_of, replace_block, with_product
from .factors import Factor
from .overlap import INDEX
from .storage import WORD_BITS, Storage

UNROLLED = "passsearch.unrolled_sum"
"""Annotation of a block whose last summing loop is unrolled in a tile: the places in a word must be constants there."""

OFFSETS = "passsearch.offsets"
"""Annotation of a block: the name of a buffer that a sum of products reads beside both of its factors."""

EXPONENT_OF_ONE, MANTISSA_BITS = 127, 23
"""A float32 of these bits of the exponent, behind those of the mantissa, is 1."""


class Words:
    """A sum over groups, their words, and the places of a word, in place of one over the numbers of a factor."""

    def __init__(self, factor: Factor, storage: Storage, buffer: Any) -> None:
        assert factor.steps is not None
        self._factor, self._storage, self._buffer = factor, storage, buffer
        self._dimension, self._axis = factor.steps
        self._groups = int(self._axis.dom.extent) // storage.step

    @classmethod
    def of(cls, factor: Factor, storage: Storage, buffer: Any) -> Words:
        """Return the sum that suits the number of rows."""
        return (WordsOfOneRow if factor.has_one_row and factor.data_dimension is not None else cls)(
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
        changed = with_product(
            block, self._product(), reads=self._reads(), iters=iters, annotations=self._annotations()
        )
        body = replace_block(body, SBlockRealize(values, realize.predicate, changed))

        def split(each: Any) -> Any:
            return nest(loops, sizes, each.body) if each.loop_var.same_as(loop) else each

        return tvm_ffi.structural_map(body, (tirx.For, split))

    def _annotations(self) -> dict[str, Any]:
        return {UNROLLED: True}

    def _product(self) -> Any:
        """Return a value of the data times a number, whose bits are moved to the upper end of a word and back."""
        _, word, place = self._axes
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


class WordsOfOneRow(Words):
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
            elementwise(f"{name}_data", self._divided, divided),
            elementwise(f"{name}_offsets", self._offsets, offset),
        ]
        return insert_before(super().body(body), name, nests, [self._divided, self._offsets])

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
        assert self._factor.data_dimension is not None
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
        offsets = region_of(self._offsets, self._at(self._offset_index()))
        return [tirx.BufferRegion(self._divided, divided), self._words_region(), offsets]
