"""Weights of the next tiles are loaded from memory while a product still computes with those before them.

Without this, a product of few rows takes as long as loading and computing one after the other. Here each tile
prefetches its share of the next weights, a few vectors at a time, and they wait in the second cache. The prefetches
stand outside the loop over single steps: inside, products with several vectors in a row were slower than without any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize

from .accesses import substitute
from .sizes import largest_divisor, part_count
from .tiling import Tiling

LEAST_BYTES = 1 << 20
"""Size from which weights are taken to come from memory. Most second caches are as large or smaller."""

LEAST_STREAM_BYTES = 1 << 16
"""The same for narrow weights in streams: all layers of a network together are larger than any cache."""

STREAM_STEPS = 4
"""Steps of a sum over a stream between a prefetch and the use."""

LEAST_ROWS = 4
"""Least rows of a tile for prefetching by default: with fewer, loading takes far longer than computing."""

MOST_ROWS_OF_ALL = 512
"""Most rows of all tiles on the same weights for prefetching by default: with more, there is little to load.

Weights that differ between the products of a batch, as Winograd's, have one vector in a row where they are prefetched.
With more than ``FEW_USES`` tiles on them, VGG19 lost more by these narrow tiles than it gained.
"""

STEPS = 8
"""Most steps between two prefetches by default."""

FEW_USES = 4
"""Up to four tiles on the same weights, loading takes as long as computing, and tiles have one vector in a row."""

LEAST_STEPS = 4
"""Least steps between two prefetches; a product whose sum has no such divisor does not prefetch."""

LINE_BYTES = 64
"""Size of a line of the cache."""

READ, SECOND_CACHE, DATA = 0, 2, 1
"""Arguments of ``llvm.prefetch``: a read, into the second cache, of data."""


@dataclass(frozen=True)
class Prefetch:
    """How a product prefetches its weights, which are packed into vectors.

    Attributes:
        place: Place of the weights among the function's parameters.
        uses: Number of tiles, one after another, that use the same weights.
        vectors: Vectors of weights that a tile reads in one step.
        steps: Steps between two prefetches.
        line: Vectors in a line of the cache.
        lanes: Elements of a vector.
        is_stream: True if each step prefetches what a few steps later is read, maybe by the next tile.
    """

    place: int
    uses: int
    vectors: int
    steps: int
    line: int
    lanes: int
    is_stream: bool

    @classmethod
    def of(cls, tiling: Tiling, *, place: int, steps: int) -> Prefetch:
        """Return how a product in these tiles prefetches."""
        line = max(1, LINE_BYTES // (tiling.lanes * tiling.element_bytes))
        vectors, lanes = tiling.vectors * tiling.step_elements, tiling.lanes
        is_stream = tiling.step_elements > 1 and tiling.uses == 1
        return cls(place, tiling.uses, vectors=vectors, steps=steps, line=line, lanes=lanes, is_stream=is_stream)

    @property
    def number(self) -> int:
        """Number of lines that are prefetched at a time."""
        return part_count(self.steps * self.vectors, self.uses * self.line)

    def ahead(self, tile: Any, step: Any, *, count: int) -> Any:
        """Return the vectors between the first one of a tile and the first one that it prefetches at a step.

        The ``uses`` tiles that share weights prefetch an equal part of the next weights each.

        Args:
            tile: Number of the tile, as an integer or an expression of TVM.
            step: Number of the step, a multiple of ``steps``, likewise.
            count: Number of steps of a tile.
        """
        if self.is_stream:
            return (step + STREAM_STEPS) * self.vectors
        return count * self.vectors + (tile % self.uses * count + step) * self.vectors // self.uses

    def insert(self, function: Any, tile: Any, summing: Sequence[Any]) -> Any:
        """Return a scheduled function that prefetches.

        Args:
            function: The function.
            tile: The loop over tiles.
            summing: The summing loops, without the innermost one of ``steps`` iterations.
        """
        step: Any = tirx.IntImm("int64", 0)
        for loop in summing:
            step = step * loop.extent + loop.loop_var
        count = math.prod(int(loop.extent) for loop in summing) * self.steps
        ahead = self.ahead(tile.loop_var, step * self.steps, count=count)

        def with_prefetches(loop: Any) -> Any:
            if not loop.loop_var.same_as(summing[-1].loop_var):
                return loop
            first = _first_read(loop, function.params[self.place], summing)
            body = tirx.SeqStmt([self._prefetches(first, ahead), loop.body])
            return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)

        return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, with_prefetches)))

    def _prefetches(self, first: Any, ahead: Any) -> Any:
        """Return a loop of prefetches of consecutive lines. The first lies ``ahead`` vectors after ``first``.

        Addresses behind the end of the weights are no error: the processor ignores what it cannot load.
        """
        *outer, column = first.indices
        each = tirx.Var("line", "int64")
        column = column + (ahead + each * self.line) * self.lanes
        address = tirx.address_of(tirx.BufferLoad(first.source, [*outer, column]))
        arguments = (tirx.const(value, "int32") for value in (READ, SECOND_CACHE, DATA))
        prefetch = tirx.Evaluate(tirx.call_llvm_intrin("void", "llvm.prefetch", address, *arguments))
        begin, end = tirx.IntImm("int64", 0), tirx.IntImm("int64", self.number)
        return tirx.For(each, begin, end, tirx.ForKind.UNROLLED, prefetch)


def prefetch_steps(tiling: Tiling, setting: int | None, *, by_default: bool) -> int:
    """Return the steps between two prefetches of a product in these tiles; 0 for none.

    Args:
        tiling: The tiles.
        setting: ``ScheduleCPU``'s argument ``prefetch``.
        by_default: True to prefetch where the setting is ``None`` and it is likely to gain.
    """
    least_bytes = LEAST_BYTES if tiling.step_elements == 1 else LEAST_STREAM_BYTES
    if tiling.packing is None or tiling.operand.size * tiling.element_bytes < least_bytes or not tiling.uses:
        return 0
    # The vectors of a row must lie one after another in memory.
    if tiling.vectors > 1 and not tiling.is_one_stretch:
        return 0
    if tiling.step_elements > 1:
        return 0 if setting == 0 else 1
    is_short = tiling.uses * tiling.rows <= MOST_ROWS_OF_ALL if tiling.is_one_stretch else tiling.uses <= FEW_USES
    if setting is None and not (by_default and tiling.rows >= LEAST_ROWS and is_short):
        return 0
    steps = largest_divisor(tiling.last_steps, STEPS if setting is None else setting)
    return steps if steps >= LEAST_STEPS else 0


def most_vectors(tiling: Tiling, setting: int | None) -> int | None:
    """Return the most vectors in a row of a tile that prefetches by this setting; ``None`` for no limit."""
    if not tiling.is_one_stretch:
        return 1
    return 1 if setting is None and tiling.uses <= FEW_USES and tiling.step_elements == 1 else None


def _first_read(loop: Any, weights: Any, summing: Sequence[Any]) -> Any:
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
    return tirx.BufferLoad(weights, [substitute(substitute(index, values), begin) for index in reads[0].indices])
