"""Weights that a product will need are loaded from memory while it still computes with those before them.

A product of few rows takes as long to load its weights as to multiply with them, and a processor does one after the
other: its own prefetching ends at every page of 4 KiB. So each step of a tile also asks for a line of the weights that
come next, which then wait in the second cache.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize

STEPS = "passsearch.prefetch"
"""Annotation of the innermost summing loop of a product that prefetches."""

LEAST_BYTES = 1 << 20
"""Size from which weights are taken to come from memory. Most second caches are as large or smaller."""

MOST_TILES = 8
"""Largest number of tiles that use the same weights for which a product prefetches without being asked to.

With two or four tiles a product takes 0.7 of the time, with eight 0.85, with sixteen 0.96.
"""

LEAST_ROWS = 4
"""Least rows of a tile that prefetches without being asked to. With fewer, loading takes far longer than computing."""

READ, SECOND_CACHE, DATA = 0, 2, 1
"""Arguments of LLVM's ``llvm.prefetch``: a read, to the second cache, of data."""


@dataclass(frozen=True)
class Prefetch:
    """What a product prefetches.

    Attributes:
        place: Place of the weights among the function's parameters.
        tiles: Number of tiles, one after another, that use the same weights.
    """

    place: int
    tiles: int

    def insert(self, function: Any) -> Any:
        """Return the scheduled function with the prefetches in its loop with the annotation ``STEPS``."""
        weights, loops = function.params[self.place], _loops_around_steps(function)
        tile = next(loop for loop in loops if loop.kind == tirx.ForKind.PARALLEL)
        steps = [loop for loop in loops if loop.kind == tirx.ForKind.SERIAL]
        line, count = tirx.IntImm("int64", 0), math.prod(int(loop.extent) for loop in steps)
        for loop in steps:
            line = line * loop.extent + loop.loop_var

        def insert(loop: Any) -> Any:
            if STEPS not in loop.annotations:
                return loop
            # Every tile asks for its part of the next weights, so that loading and computing take turns in small steps.
            part = (tile.loop_var % self.tiles * count + line) // self.tiles
            prefetch = _prefetch(_current_line(loop, weights), ahead=count - line + part)
            body = tirx.SeqStmt([prefetch, loop.body])
            return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)

        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, insert)))


def _loops_around_steps(function: Any) -> list[Any]:
    """Return the annotated loop and those around it, outermost first."""
    loops: list[Any] = []

    def visit(loop: Any) -> None:
        # Inner loops are visited first.
        if STEPS in loop.annotations or (loops and _contains(loop, loops[-1])):
            loops.append(loop)

    tvm_ffi.structural_walk(function.body, (tirx.For, visit))
    return loops[::-1]


def _contains(loop: Any, inner: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (tirx.For, lambda each: found.append(each) if each.same_as(inner) else None))
    return bool(found)


def _current_line(loop: Any, weights: Any) -> Any:
    """Return the read of the first element of the weights that one step of a loop takes."""
    blocks: list[Any] = []
    reads: list[Any] = []
    tile: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (SBlockRealize, blocks.append))
    tvm_ffi.structural_walk(
        loop.body, (tvm.ir.TensorLoad, lambda read: reads.append(read) if read.source.same_as(weights) else None)
    )
    tvm_ffi.structural_walk(loop.body, (tirx.For, tile.append))
    (block,) = blocks
    values = {axis.var: value for axis, value in zip(block.block.iter_vars, block.iter_values, strict=True)}
    first = {inner.loop_var: tirx.IntImm("int64", 0) for inner in tile}
    return tirx.BufferLoad(weights, [_substitute(_substitute(index, values), first) for index in reads[0].indices])


def _substitute(expression: Any, values: dict[Any, Any]) -> Any:
    def value_of(variable: Any) -> Any:
        return next((value for other, value in values.items() if other.same_as(variable)), variable)

    return tvm_ffi.structural_map(expression, (tvm.ir.Var, value_of))


def _prefetch(line: Any, *, ahead: Any) -> Any:
    """Return the statement that asks for a line of the cache, a number of vectors after another line.

    An address beyond the weights loads nothing that counts, and is no error.
    """
    *outer, vector, lane = line.indices
    address = tirx.address_of(tirx.BufferLoad(line.source, [*outer, vector + ahead, lane]))
    arguments = (tirx.const(value, "int32") for value in (READ, SECOND_CACHE, DATA))
    return tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *arguments))
