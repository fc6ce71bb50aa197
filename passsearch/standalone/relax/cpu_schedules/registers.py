"""The vector registers of a processor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tvm.target.codegen import llvm_get_vector_width, target_has_features

from .sizes import FEW_THREADS


@dataclass(frozen=True)
class Registers:
    """The vector registers of a processor, and what it needs beside multiplications.

    The times are multiples of that of a multiplication. Those with AVX-512 fit an Intel Xeon that starts two a cycle.

    Attributes:
        bits: Size of a register.
        number: Number of registers; sums, weights and one value of the data must fit into them.
        most_sums: Most vectors of sums in a tile where nothing else is asked for.
        load_of_data: Time to load a value of the data into all lanes, as a multiple of that of a multiplication. Data
            stay in the nearest cache, and with AVX-512 the multiplication loads them itself. A processor that starts
            two multiplications a cycle is bound by these loads in tiles of 8 by 1.
        own_load: Further time where each multiplication loads a value of its own, in tiles of one vector in a row.
        stream_of_weights: Time in which the second cache delivers a vector of weights, likewise.
        has_prefetch: True if code for the target can prefetch.
        gains_by_prefetch: True if products with weights from memory were measured to be faster with prefetches.
        threads: Number of threads that share a kernel, of which the tilings take account beyond ``FEW_THREADS``.
    """

    bits: int
    number: int
    most_sums: int
    load_of_data: float
    own_load: float = 0
    stream_of_weights: float = 2
    has_prefetch: bool = True
    gains_by_prefetch: bool = False
    threads: int = FEW_THREADS


X86_REGISTERS = {
    "avx512f": Registers(
        512,
        number=32,
        most_sums=24,
        load_of_data=0.1,
        own_load=0.15,
        stream_of_weights=3,
        gains_by_prefetch=True,
    ),
    "avx": Registers(256, number=16, most_sums=14, load_of_data=0.25),
    "sse": Registers(128, number=16, most_sums=14, load_of_data=0.25),
}
"""Registers of x86 processors by the feature that brings them, the largest first."""


def registers_of(target: Any) -> Registers:
    """Return the registers of a target's processor, and the threads of its option ``num-cores``."""
    return replace(_registers(target), threads=max(int(target.attrs.get("num-cores", 0)), FEW_THREADS))


def _registers(target: Any) -> Registers:
    # TVM 0.27 answers 512 for every x86 processor. Tiles for vectors of twice the size do not fit into the registers.
    if target_has_features("sse", target):
        return next(each for name, each in X86_REGISTERS.items() if target_has_features(name, target))
    bits = max(int(llvm_get_vector_width(target)), 128)
    has_prefetch = target.kind.name == "llvm"
    return Registers(bits, number=16, most_sums=14, load_of_data=0.025, has_prefetch=has_prefetch)
