"""An operator of TVM's loops that adds up two products of 16-bit numbers, ``vpmaddwd`` on x86.

TVM makes vectors of a loop with it as of any other operator, and code generation then asks for its instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tirx
from tvm.ir.op import register_op_attr

PAIRS, PAIRS_X86 = "tirx.passsearch_pairs", "tirx.passsearch_pairs_x86"
"""Names of the operator for any processor and for x86 ones: ``int32(a, b)``.

Both halves of ``a`` are numbers of 16 bits. Those of ``b`` are likewise, or of 8 bits if ``b`` has 16.
"""

INSTRUCTIONS = {4: "llvm.x86.sse2.pmadd.wd", 8: "llvm.x86.avx2.pmadd.wd", 16: "llvm.x86.avx512.pmaddw.d.512"}
"""LLVM's names of the instruction by the number of sums."""

PURE = 1
"""``CallEffectKind::kPure`` of ``tvm/tirx/op_attr_types.h``."""


def pair_product(words: Any, factors: Any, *, is_x86: bool) -> Any:
    """Return the sum of the products of both halves."""
    return tirx.call_intrin("int32", PAIRS_X86 if is_x86 else PAIRS, words, factors)


def pair(low: Any, high: Any) -> Any:
    """Return a word of two numbers of 16 bits. LLVM loads neighbours at once."""
    halves = [each.astype("uint16").astype("uint32") for each in (low, high)]
    return tirx.reinterpret("int32", halves[0] | (halves[1] << tirx.const(16, "uint32")))


def _generic(call: Any) -> Any:
    words, factors = call.args
    bits = 16 if _bits(words) == _bits(factors) else 8
    lanes = lanes_of(call)
    total = None
    for place in (0, 1):
        left = _half(words, place, 16, lanes)
        product = left * _half(factors, place, bits, lanes)
        total = product if total is None else total + product
    return total


def _half(word: Any, place: int, bits: int, lanes: int) -> Any:
    """Return one number of a word as int32."""
    dtype = "int32" if lanes == 1 else f"int32x{lanes}"
    wide = word.astype(dtype)
    shift = tirx.const(32 - bits * (place + 1), dtype)
    return (wide << shift) >> tirx.const(32 - bits, dtype)


def _x86(call: Any) -> Any:
    words, factors = call.args
    lanes = lanes_of(call)
    if lanes not in INSTRUCTIONS:
        return _generic(call)
    numbers = f"int16x{2 * lanes}"
    if _bits(factors) == 16:
        right = tirx.reinterpret(f"int8x{2 * lanes}", factors).astype(numbers)
    else:
        right = tirx.reinterpret(numbers, factors)
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", INSTRUCTIONS[lanes], tirx.reinterpret(numbers, words), right)


def lanes_of(value: Any) -> int:
    """Return the elements of a vector, 1 for a number."""
    found = re.search(r"x(\d+)$", str(value.ty))
    return int(found[1]) if found else 1


def _bits(value: Any) -> int:
    found = re.match(r"int(\d+)", str(value.ty))
    assert found is not None
    return int(found[1])


def register(name: str, rule: Callable[[Any], Any]) -> None:
    """Register an operator of TVM's loops, once for a process, with the rule that code generation asks."""
    tvm.get_global_func("ir.RegisterOp")(name, "Sum of products of the numbers in words.")
    register_op_attr(name, "TVectorizable", True)
    register_op_attr(name, "TCallEffectKind", PURE)
    tirx.register_intrin_lowering(name, target="default", f=rule, level=99)


for _name, _rule in ((PAIRS, _generic), (PAIRS_X86, _x86)):
    register(_name, _rule)
