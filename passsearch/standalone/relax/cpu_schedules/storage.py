"""Numbers of weights in fewer bits: how they are rounded, and how the bytes lie in memory.

Types without a scale keep the layout of the weights: ``bfloat16`` as the upper halves of float32 in int16, because
numpy has no such type, and ``float16``. ``int8`` without groups has one scale for each column, by which the sums are
multiplied.

Numbers with a scale for each group of a sum lie in words of 32 bits. A word has neighbours along the sum, the first in
its lowest bits, so that shifts and masks widen the numbers of a whole vector of columns. All but the last one of a word
have their highest bit inverted, so that they are not negative where the bits of the others are masked. The scale of a
group, the bits of a float32, is the word after the numbers of the group, so that a product reads one stream of memory.

Where products are of integers (``integer_words.py``), numbers lie in such words, too, but in the order in which the
activations do: with ``g`` numbers in a group, those of byte ``b`` are from the ``b``-th quarter of the group. ``int4``
has all of its numbers without a sign, 8 larger than they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

WORD_BITS = 32
"""Bits of a word."""

BYTES = 4
"""Bytes of a word."""

HALF_BITS = 16
"""Bits of a bfloat16."""

FLOAT32, INT8 = "float32", "int8"

EXACT = "exact"
"""A 16-bit type that has all numbers of a weight."""

STORAGES = ("bfloat16", "float16", "int8", "int4")
"""Types of numbers that weights are stored in."""

LARGEST, LARGEST_OF_OTHERS = {"float16": 65504.0}, 1e38
"""Largest magnitude by type. Near the largest float32, a number that is rounded up would become infinite."""

GROUPED = ("int8", "int4")
"""Those that may have scales for groups of a sum."""


@dataclass(frozen=True)
class Storage:
    """How weights are stored.

    Attributes:
        name: Type of the numbers, one of ``STORAGES`` or ``FLOAT32``.
        group: Numbers along the sum that share a scale; 0 for one scale for each column, or none.
        activations: Numbers of the other factor that share a scale, in ``int8``; 0 if these are in float32.
    """

    name: str
    group: int = 0
    activations: int = 0

    @property
    def bits(self) -> int:
        """Bits of a number."""
        return {"int8": 8, "int4": 4}.get(self.name, HALF_BITS)

    @property
    def dtype(self) -> str:
        """Type of the elements of the stored array."""
        if self.step > 1:
            return "int32"
        return {"bfloat16": "int16"}.get(self.name, self.name)

    @property
    def numbers_of_word(self) -> int:
        """Numbers in a word."""
        return WORD_BITS // self.bits

    @property
    def step(self) -> int:
        """Numbers that lie in words together; 1 for numbers that do not."""
        return self.group or self.activations or 1

    @property
    def words_of_group(self) -> int:
        """Words of a group, the last of which is its scale if groups have scales."""
        return self.step // self.numbers_of_word + bool(self.group)

    @property
    def has_column_scales(self) -> bool:
        """True if each column has a scale, in an array of its own."""
        return self.name == "int8" and not self.group

    @property
    def offset(self) -> int:
        """What is added to all numbers of a word but the last one, so that they are not negative."""
        return int(2 ** (self.bits - 1))

    @property
    def signs(self) -> int:
        """The bits of a word that the offsets change, as an integer without a sign."""
        if self.activations:
            return 0x88888888 if self.name == "int4" else 0
        return sum(self.offset << (place * self.bits) for place in range(self.numbers_of_word - 1))

    def mask(self, place: int) -> int:
        """Return the bits of a word that have the number at a place, as a signed integer."""
        bits = (2 * self.offset - 1) << (place * self.bits)
        return bits - 2**WORD_BITS if place == self.numbers_of_word - 1 else bits

    @property
    def text(self) -> str:
        """The storage in words."""
        groups = f" in groups of {self.group}" if self.group else ""
        return f"{self.name}{groups}" + (f" with {INT8} activations" if self.activations else "")

    def refusal(self, weights: Any) -> str:
        """Return why weights are not stored so; empty if they can be."""
        if not np.isfinite(weights).all():
            return "some are infinite or NaN"
        if np.abs(weights).max() > LARGEST.get(self.name, LARGEST_OF_OTHERS):
            return f"some are too large for {self.name}"
        return ""

    def arrays(self, weights: Any, summed: Sequence[int], dimension: int) -> tuple[Any, ...]:
        """Return the stored arrays: the numbers, and the scales of columns if they have any.

        Args:
            weights: The weights in float32, all of them finite.
            summed: Their dimensions that are summed up.
            dimension: The one of these that is divided into groups.
        """
        if self.group:
            return (to_groups(weights, dimension, self),)
        if self.has_column_scales:
            numbers, scale = to_columns(weights, summed)
            if self.activations:
                numbers = _stream(_in_groups(numbers, dimension, self), dimension, self)
            return numbers, scale
        return (to_bfloat16(weights) if self.name == "bfloat16" else weights.astype(self.dtype),)

    def rounded(self, weights: Any, summed: Sequence[int], dimension: int) -> Any:
        """Return float32 weights of the values that ``arrays`` of the same arguments stand for."""
        if self.group:
            numbers, scale = _grouped(weights, dimension, self)
            values = (numbers * scale).reshape(-1, *numbers.shape[2:])
            return np.ascontiguousarray(np.moveaxis(values, 0, dimension))
        if self.has_column_scales:
            numbers, scale = to_columns(weights, summed)
            return numbers * np.expand_dims(scale, tuple(summed))
        if self.name == "bfloat16":
            return (to_bfloat16(weights).view("uint16").astype("uint32") << HALF_BITS).view("float32")
        return weights.astype(self.dtype).astype(FLOAT32)


def exact_type(weights: Sequence[Any], *, has_float16: bool) -> str:
    """Return a 16-bit type that has all numbers of several arrays, float32 if there is none.

    Args:
        weights: Arrays of finite numbers in float32.
        has_float16: True if the processor widens float16.
    """
    if not any((np.ascontiguousarray(each).view("uint32") & 0xFFFF).any() for each in weights):
        return "bfloat16"
    with np.errstate(over="ignore"):
        is_half = has_float16 and all(np.array_equal(each.astype("float16").astype(FLOAT32), each) for each in weights)
    return "float16" if is_half else FLOAT32


def to_bfloat16(weights: Any) -> Any:
    """Return the upper halves of float32 numbers as int16, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(weights).view("uint32")
    odd = (bits >> HALF_BITS) & 1
    return ((bits + 0x7FFF + odd) >> HALF_BITS).astype("uint16").view("int16")


def to_columns(weights: Any, summed: Sequence[int]) -> tuple[Any, Any]:
    """Return int8 numbers, and the float32 scale of each column.

    Args:
        weights: The weights.
        summed: Dimensions that are summed up; the columns are the others.
    """
    extreme = np.abs(weights).max(axis=tuple(summed), keepdims=True)
    scale = (extreme / np.float32(127)).astype("float32")
    return _rounded(weights, scale, least=-127, most=127), scale.squeeze(tuple(summed))


def to_groups(weights: Any, dimension: int, storage: Storage) -> Any:
    """Return words with the numbers of each group along a dimension and then its scale.

    The number of largest magnitude of a group of ``int4`` becomes -8, so that 16 values are used.

    Args:
        weights: The weights; the size of the dimension is a multiple of the group.
        dimension: The dimension.
        storage: Type and group.
    """
    numbers, scale = _grouped(weights, dimension, storage)
    return _stream(numbers, dimension, storage, scale.view("int32"))


def _grouped(weights: Any, dimension: int, storage: Storage) -> tuple[Any, Any]:
    """Return numbers of shape ``[groups, numbers, ...]`` and the float32 scale of each group; see ``to_groups``."""
    groups = _in_groups(weights, dimension, storage)
    if storage.name == "int4":
        place = np.abs(groups).argmax(axis=1)[:, None]
        scale = np.take_along_axis(groups, place, axis=1) / np.float32(-8)
        numbers = _rounded(groups, scale, least=-8, most=7)
    else:
        scale = np.abs(groups).max(axis=1, keepdims=True) / np.float32(127)
        numbers = _rounded(groups, scale, least=-127, most=127)
    return numbers, scale.astype(FLOAT32)


def _in_groups(values: Any, dimension: int, storage: Storage) -> Any:
    """Return values of shape ``[groups, numbers, ...]``."""
    moved = np.moveaxis(values, dimension, 0)
    return moved.reshape(-1, storage.step, *moved.shape[1:])


def _stream(numbers: Any, dimension: int, storage: Storage, *scales: Any) -> Any:
    """Return the words of numbers of shape ``[groups, numbers, ...]``, and after each group its scale."""
    joined = np.concatenate([_words(numbers, storage), *scales], axis=1)
    return np.moveaxis(joined.reshape(-1, *numbers.shape[2:]), 0, dimension)


def _rounded(weights: Any, scale: Any, *, least: int, most: int) -> Any:
    """Return the integers nearest to weights over their scale, 0 where the scale is 0."""
    quotient = np.divide(weights, scale, out=np.zeros_like(weights), where=scale != 0)
    return np.clip(np.rint(quotient), least, most).astype("int8")


def _words(numbers: Any, storage: Storage) -> Any:
    """Return numbers of shape ``[groups, numbers, ...]`` as words of shape ``[groups, words, ...]``."""
    count = storage.numbers_of_word
    split = _by_words(numbers, storage).astype("uint32")
    mask = np.uint32(2**storage.bits - 1)
    words = np.zeros((split.shape[0], split.shape[1], *split.shape[3:]), "uint32")
    for place in range(count):
        words |= (split[:, :, place] & mask) << np.uint32(place * storage.bits)
    return (words ^ np.uint32(storage.signs)).view("int32")


def _by_words(numbers: Any, storage: Storage) -> Any:
    """Return numbers of shape ``[groups, numbers, ...]`` as ``[groups, words, places, ...]``."""
    groups, count, rest = numbers.shape[0], storage.numbers_of_word, numbers.shape[2:]
    if not storage.activations:
        return numbers.reshape(groups, -1, count, *rest)
    of_byte = count // BYTES
    quarters = numbers.reshape(groups, BYTES, -1, of_byte, *rest)
    return np.moveaxis(quarters, 1, 2).reshape(groups, -1, count, *rest)
