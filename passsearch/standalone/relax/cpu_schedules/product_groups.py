"""Groups of neighbours along a sum of products of integers, which are multiplied and added up at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .accesses import BYTE
from .pair_operator import pair, pair_product
from .quad_operator import NUMBERS, QUADS_16, QUADS_VNNI, add_quads, exact_words, grouped, quad

SPARE_REGISTERS = {1: 2, 2: 6}
"""Registers that sums of 16 bits need beside the others, by the words in a sum. In tiles of 4 by 2, which LLVM does not
hold in registers with two words, a 3 by 3 convolution took 1.26 times as long as in tiles of 7 by 1."""


@dataclass(frozen=True)
class ProductGroups:
    """How many products are added up at once.

    Attributes:
        operator: Name of the operator on words of four numbers, empty for pairs.
        words: Words of the weights.
        is_x86: True for the operator of x86 on pairs.
    """

    operator: str
    words: int
    is_x86: bool

    @classmethod
    def choose(cls, values: Sequence[Any], dimension: int, *, quads: str, is_x86: bool) -> ProductGroups:
        """Return the largest groups whose sums are exact.

        Args:
            values: The constant weights of every call.
            dimension: The dimension that sums are along.
            quads: The operator on words of four numbers, empty for none.
            is_x86: True for the operator of x86 on pairs.
        """
        if quads and values and (words := 1 if quads == QUADS_VNNI else exact_words(values, dimension)):
            return cls(quads, words, is_x86)
        return cls("", 1, is_x86)

    @property
    def numbers(self) -> int:
        """Numbers of the data."""
        return NUMBERS * self.words if self.operator else 2

    @property
    def dtype(self) -> str:
        """Type of the data."""
        return "uint8" if self.operator else "int16"

    def added(self, total: Any, data: Sequence[Any], factors: Sequence[Any]) -> Any:
        """Return a sum with the products of data and of words of the weights added."""
        if not self.operator:
            return total + pair_product(pair(*data), *factors, is_x86=self.is_x86)
        words = [quad(data[begin : begin + NUMBERS]) for begin in range(0, len(data), NUMBERS)]
        return add_quads(total, words, factors, self.operator)

    @property
    def spare_registers(self) -> int:
        """Registers that a tile keeps free."""
        return SPARE_REGISTERS[self.words] if self.operator == QUADS_16 else 0

    def words_of(self, array: Any, dimension: int) -> Any:
        """Return integers with neighbours along a dimension in one word, and zeros behind the last ones."""
        parts = np.moveaxis(grouped(array, dimension, self.numbers), dimension, -2)
        number = array.dtype if array.dtype == np.int8 else np.dtype("int16")
        word = f"int{BYTE * number.itemsize * self.numbers // self.words}"
        flat = np.ascontiguousarray(parts.reshape(*parts.shape[:-2], -1).astype(number))
        return np.ascontiguousarray(np.moveaxis(flat.view(word), -1, dimension))
