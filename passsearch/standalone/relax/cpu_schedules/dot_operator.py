"""Operators of TVM's loops that add up the products of a group of 8-bit integers and 8-bit or 4-bit ones.

``int32(weights ..., activations ...)`` takes words of 32 bits. One of activations has four integers with a sign, one of
weights the four that they are multiplied with (``int8``), or those of two words of activations (``int4``, without a
sign): of each byte the lower half is for the first word, the upper half for the second.

AVX2 has ``vpmaddubsw``, which multiplies bytes without a sign by bytes with one, and adds up pairs in 16 bits. Eight
pairs of products of 15 and 127 fit into these, and one pair of products of 127 and 127. So ``int8`` takes the magnitude
of the activations, and gives their signs to the weights, as ggml does.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from .pair_operator import lanes_of, register

DOTS = {"int8": "tirx.passsearch_dot8", "int4": "tirx.passsearch_dot4"}
"""Names of the operators by the type of the weights."""

LANES = 8
"""Words of a register of AVX2."""

PAIRS_OF_NIBBLES = 8
"""Pairs of products that are added up in 16 bits: 8 * 2 * 15 * 127 is below 2**15."""

MULTIPLY, ADD_PAIRS, SIGNS = "llvm.x86.avx2.pmadd.ub.sw", "llvm.x86.avx2.pmadd.wd", "llvm.x86.avx2.psign.b"
"""LLVM's names of the instructions."""

BYTES, HALVES, WORDS = "int8x32", "int16x16", "int32x8"
"""Types of a register."""


def dot(storage: str, weights: Sequence[Any], activations: Sequence[Any]) -> Any:
    """Return the sum of the products of all integers in these words."""
    return tirx.call_intrin("int32", DOTS[storage], *weights, *activations)


def _sum(values: Sequence[Any]) -> Any:
    """Return a sum, in a tree."""
    while len(values) > 1:
        values = [functools.reduce(operator.add, values[at : at + 2]) for at in range(0, len(values), 2)]
    return values[0]


def _rule(weights_of: Callable[[Any], Sequence[Any]], pairs: int, signed: bool) -> Callable[[Any], Any]:
    """Return the rule that lowers an operator.

    Args:
        weights_of: Returns the words that are multiplied with words of activations, from a word of weights.
        pairs: Products of words that are added up in 16 bits.
        signed: True for weights with a sign.
    """

    def lowered(call: Any) -> Any:
        words, lanes = list(call.args), lanes_of(call)
        count = len(words) // (1 + len(weights_of(words[0])))
        weights = [each for word in words[:count] for each in weights_of(word)]
        if lanes % LANES:
            return _sum([_generic(*each, signed) for each in zip(weights, words[count:], strict=True)])
        if lanes > LANES:
            return _halved(call)
        products = [_multiplied(*each, signed) for each in zip(weights, words[count:], strict=True)]
        sums = [_sum(products[at : at + pairs]) for at in range(0, len(products), pairs)]
        ones = tirx.const(1, HALVES)
        return _sum([tirx.call_llvm_pure_intrin(WORDS, ADD_PAIRS, each, ones) for each in sums])

    return lowered


def _halved(call: Any) -> Any:
    """Return the call on both halves of longer vectors."""
    lanes = lanes_of(call) // 2
    halves = [
        tirx.call_intrin(f"int32x{lanes}", call.op.name, *(half(f"int32x{lanes}", each) for each in call.args))
        for half in (tirx.vectorlow, tirx.vectorhigh)
    ]
    return tirx.vectorcombine(f"int32x{2 * lanes}", *halves)


def _multiplied(weights: Any, activations: Any, signed: bool) -> Any:
    """Return sums of pairs of products in 16 bits."""
    left, right = (tirx.reinterpret(BYTES, each) for each in (weights, activations))
    if signed:
        magnitude = tirx.call_llvm_pure_intrin(BYTES, "llvm.abs", right, tirx.const(False, "bool"))
        left, right = magnitude, tirx.call_llvm_pure_intrin(BYTES, SIGNS, left, right)
    return tirx.call_llvm_pure_intrin(HALVES, MULTIPLY, left, right)


def _generic(weights: Any, activations: Any, signed: bool) -> Any:
    """Return sums of four products, for vectors of any size."""
    dtype = str(weights.ty)
    terms = []
    for byte in range(4):
        left, bits = tirx.const(24 - 8 * byte, dtype), tirx.const(24, dtype)
        number = (weights << left) >> bits if signed else (weights >> tirx.const(8 * byte, dtype)) & 255
        terms.append(number * ((activations << left) >> bits))
    return _sum(terms)


def _nibbles(word: Any) -> list[Any]:
    """Return the lower and the upper halves of the bytes of a word."""
    mask = tirx.const(0x0F0F0F0F, str(word.ty))
    return [word & mask, (word >> tirx.const(4, str(word.ty))) & mask]


register(DOTS["int8"], _rule(lambda word: [word], pairs=1, signed=True))
register(DOTS["int4"], _rule(_nibbles, pairs=PAIRS_OF_NIBBLES, signed=False))
