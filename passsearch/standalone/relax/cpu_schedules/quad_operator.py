"""An operator of TVM's loops that adds products of four numbers of 8 bits to a sum, exactly.

Processors with VNNI do it by ``vpdpbusd``. Others with AVX2 take ``vpmaddubsw``, whose sums of two products have 16
bits and saturate: ``exact_words`` finds out whether constant weights leave room for all data, as those of 7 bits do,
and for the sums of several words, which a single ``vpmaddwd`` then adds up. Weights of 8 bits leave none: of 178
kernels of ResNet-50 with random weights and of three trained networks (PP-OCRv4), with a scale for each channel, none
passed, and 0.7 to 24 % of the pairs in each of ResNet-50 were too large, in all parts of the kernels.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import tirx
from tvm.target.codegen import llvm_version_major, target_has_features

from .pair_operator import INSTRUCTIONS, lanes_of, register

QUADS, QUADS_VNNI, QUADS_16 = (f"tirx.passsearch_quads{end}" for end in ("", "_vnni", "_16"))
"""Names of the operator for any processor, with VNNI, and in sums of 16 bits: ``int32(sum, words..., factors...)``.

A word has four numbers without a sign; a factor, of which there is one for each word, has four with one.
"""

VNNI = {lanes: f"llvm.x86.avx512.vpdpbusd.{32 * lanes}" for lanes in (4, 8, 16)}
"""LLVM's names of the instruction by the number of sums, with AVX-VNNI as well."""

BYTE_PAIRS = {4: "llvm.x86.ssse3.pmadd.ub.sw.128", 8: "llvm.x86.avx2.pmadd.ub.sw", 16: "llvm.x86.avx512.pmaddubs.w.512"}
"""LLVM's names of the instruction for sums of two products, likewise."""

NUMBERS = 4
"""Numbers of a word."""

MOST_WORDS = (2, 1)
"""Words whose products are added up in 16 bits, tried one after another."""

LARGEST_FACTOR = 32767 // 255
"""Up to this sum of factors of one sign, 16 bits hold the sum of their products with any data."""

FIRST_WITH_BYTES = 22
"""Version of LLVM from which the operands of ``vpdpbusd`` are vectors of bytes."""


def quad(numbers: Sequence[Any]) -> Any:
    """Return a word of four numbers of 8 bits. LLVM loads neighbours at once."""
    shifted = [each.astype("uint32") << tirx.const(8 * place, "uint32") for place, each in enumerate(numbers)]
    return tirx.reinterpret("int32", functools.reduce(operator.or_, shifted))


def add_quads(total: Any, words: Sequence[Any], factors: Sequence[Any], name: str) -> Any:
    """Return a sum with the products of the numbers in words and in as many factors added."""
    return tirx.call_intrin("int32", name, total, *words, *factors)


def quads_of(target: Any) -> str:
    """Return the name of the operator for a processor; empty where pairs of 16 bits are the best."""
    has_vnni = target_has_features("avxvnni", target) or target_has_features(["avx512vnni", "avx512vl"], target)
    if has_vnni:
        return QUADS_VNNI
    return QUADS_16 if target_has_features("avx2", target) else ""


def exact_words(arrays: Sequence[Any], dimension: int) -> int:
    """Return the words whose products with any data 16 bits hold; 0 if not even those of one.

    Args:
        arrays: Constant factors of 8 bits.
        dimension: The dimension that sums are along.
    """
    size = arrays[0].shape[dimension]
    counts = [count for count in MOST_WORDS if count == 1 or size % (NUMBERS * count) == 0]
    return next((count for count in counts if all(_is_exact(each, dimension, count) for each in arrays)), 0)


def _is_exact(array: Any, dimension: int, count: int) -> bool:
    # Each sum of 16 bits is of two neighbours in every word.
    parts = np.moveaxis(grouped(array, dimension, NUMBERS * count), dimension, -2)
    parts = parts.reshape(*parts.shape[:-1], count, 2, 2).astype("int16")
    return all(int(np.maximum(sign * parts, 0).sum((-3, -1)).max(initial=0)) <= LARGEST_FACTOR for sign in (1, -1))


def grouped(array: Any, dimension: int, numbers: int) -> Any:
    """Return an array with groups of neighbours along a dimension as its last one, and zeros behind the last."""
    zeros = [(0, 0)] * array.ndim
    zeros[dimension] = (0, -array.shape[dimension] % numbers)
    moved = np.moveaxis(np.pad(array, zeros), dimension, -1)
    groups = moved.reshape(*moved.shape[:-1], -1, numbers)
    return np.ascontiguousarray(np.moveaxis(groups, -2, dimension))


def _operands(call: Any) -> tuple[Any, list[Any], list[Any]]:
    total, *others = call.args
    half = len(others) // 2
    return total, list(others[:half]), list(others[half:])


def _generic(call: Any) -> Any:
    total, words, factors = _operands(call)
    dtype = str(call.ty)
    for word, factor in zip(words, factors, strict=True):
        for place in range(NUMBERS):
            number = (word >> tirx.const(8 * place, dtype)) & tirx.const(255, dtype)
            total = total + number * ((factor << tirx.const(24 - 8 * place, dtype)) >> tirx.const(24, dtype))
    return total


def _vnni(call: Any) -> Any:
    lanes = lanes_of(call)
    if lanes not in VNNI:
        return _generic(call)
    total, words, factors = _operands(call)
    for word, factor in zip(words, factors, strict=True):
        pair = (word, factor)
        if llvm_version_major() >= FIRST_WITH_BYTES:
            pair = (
                tirx.reinterpret(f"uint8x{NUMBERS * lanes}", word),
                tirx.reinterpret(f"int8x{NUMBERS * lanes}", factor),
            )
        total = tirx.call_llvm_pure_intrin(f"int32x{lanes}", VNNI[lanes], total, *pair)
    return total


def _in_16_bits(call: Any) -> Any:
    lanes = lanes_of(call)
    if lanes not in BYTE_PAIRS:
        return _generic(call)
    total, words, factors = _operands(call)
    bytes_, halves = f"int8x{NUMBERS * lanes}", f"int16x{2 * lanes}"
    sums = [
        tirx.call_llvm_pure_intrin(
            halves, BYTE_PAIRS[lanes], tirx.reinterpret(f"u{bytes_}", word), tirx.reinterpret(bytes_, factor)
        )
        for word, factor in zip(words, factors, strict=True)
    ]
    ones = tirx.Broadcast(tirx.const(1, "int16"), 2 * lanes)
    wide = tirx.call_llvm_pure_intrin(f"int32x{lanes}", INSTRUCTIONS[lanes], functools.reduce(operator.add, sums), ones)
    return total + wide


for _name, _rule in ((QUADS, _generic), (QUADS_VNNI, _vnni), (QUADS_16, _in_16_bits)):
    register(_name, _rule)
