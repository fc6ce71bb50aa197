"""Weights of the next tiles are loaded from memory while a product still computes with those before them.

A processor's own prefetching ends at every page of 4 KiB, so a product of few rows waits for its weights about as long
as it multiplies with them. Here every tile asks for its part of the weights that come next, a few at a time, which then
wait in the second cache. The requests stand outside the loop over single steps: inside, LLVM would keep large tiles of
sums in memory instead of registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize

from .sizes import part_count

REQUESTS = "passsearch.prefetch"
"""Annotation of the summing loop whose every iteration begins with requests for weights."""

LEAST_BYTES = 1 << 20
"""Size from which weights are taken to come from memory. Most second caches are as large or smaller."""

LEAST_ROWS, FEW_USES, MOST_USES = 4, 4, 64
"""Where products ask for weights by themselves: in tiles of so many rows, if up to so many tiles use the same weights.

Products of 768 by 3,072 take 0.78 to 0.85 of the time with 16 to 64 rows (two to eight tiles), and 0.91 with 128
(``benchmarks/prefetch_products.py``, an Intel Xeon with AVX-512). With one row, loading takes far longer than
computing, and with many tiles there is little to load.
"""

STEPS_OF_FEW_USES, STEPS_OF_MANY_USES = 8, 64
"""Steps of a sum between two requests. Fewer are better while loading takes as long as computing."""

READ, SECOND_CACHE, DATA = 0, 2, 1
"""Arguments of ``llvm.prefetch``: a read, into the second cache, of data."""


@dataclass(frozen=True)
class Prefetch:
    """Requests of a product for its weights, which are packed into vectors.

    Attributes:
        place: Place of the weights among the function's parameters.
        uses: Number of tiles, one after another, that use the same weights.
        vectors: Vectors of weights that a tile reads in one step.
        steps: Steps between two requests.
    """

    place: int
    uses: int
    vectors: int
    steps: int

    def insert(self, function: Any) -> Any:
        """Return the scheduled function with requests in its loop with the annotation ``REQUESTS``."""
        loops = _annotated_loop_and_outer(function)
        tile = next(loop for loop in loops if loop.kind == tirx.ForKind.PARALLEL)
        summing = [loop for loop in loops if loop.kind == tirx.ForKind.SERIAL]
        step = tirx.IntImm("int64", 0)
        for loop in summing:
            step = step * loop.extent + loop.loop_var
        step, count = step * self.steps, math.prod(int(loop.extent) for loop in summing) * self.steps
        # All tiles that use the same weights ask for equal parts of those after them.
        part = (tile.loop_var % self.uses * count + step) * self.vectors // self.uses
        ahead = count * self.vectors + part

        def insert(loop: Any) -> Any:
            if REQUESTS not in loop.annotations:
                return loop
            first = _first_read(loop, function.params[self.place], summing)
            number = part_count(self.steps * self.vectors, self.uses)
            body = tirx.SeqStmt([_requests(first, ahead=ahead, number=number), loop.body])
            return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)

        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, insert)))


def _annotated_loop_and_outer(function: Any) -> list[Any]:
    """Return the annotated loop and those around it, outermost first."""
    loops: list[Any] = []

    def visit(loop: Any) -> None:
        # Inner loops are visited first.
        if REQUESTS in loop.annotations or (loops and _contains(loop, loops[-1])):
            loops.append(loop)

    tvm_ffi.structural_walk(function.body, (tirx.For, visit))
    return loops[::-1]


def _contains(loop: Any, inner: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, lambda each: found.append(each) if each.same_as(inner) else None))
    return bool(found)


def _first_read(loop: Any, weights: Any, summing: list[Any]) -> Any:
    """Return the read of the first element of the weights that a tile takes in its first step."""
    inner: list[Any] = []
    blocks: list[Any] = []
    reads: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, inner.append))
    tvm_ffi.structural_walk(loop.body, (SBlockRealize, blocks.append))
    tvm_ffi.structural_walk(
        loop.body, (tvm.ir.TensorLoad, lambda read: reads.append(read) if read.source.same_as(weights) else None)
    )
    (block,) = blocks
    values = {axis.var: value for axis, value in zip(block.block.iter_vars, block.iter_values, strict=True)}
    begin = {each.loop_var: tirx.IntImm("int64", 0) for each in (*summing, *inner)}
    return tirx.BufferLoad(weights, [_substitute(_substitute(index, values), begin) for index in reads[0].indices])


def _substitute(expression: Any, values: dict[Any, Any]) -> Any:
    def value_of(variable: Any) -> Any:
        return next((value for other, value in values.items() if other.same_as(variable)), variable)

    return tvm_ffi.structural_map(expression, (tvm.ir.Var, value_of))


def _requests(first: Any, *, ahead: Any, number: int) -> Any:
    """Return the statement that asks for some vectors in a row, the first of them so many vectors ahead of a read.

    Addresses behind the weights' end are no error: the processor ignores a request that it cannot serve.
    """
    *outer, vector, lane = first.indices
    each = tirx.Var("vector", "int64")
    address = tirx.address_of(tirx.BufferLoad(first.source, [*outer, vector + ahead + each, lane]))
    arguments = (tirx.const(value, "int32") for value in (READ, SECOND_CACHE, DATA))
    request = tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *arguments))
    begin, end = tirx.IntImm("int64", 0), tirx.IntImm("int64", number)
    return tirx.For(each, begin, end, tirx.ForKind.UNROLLED, request)
