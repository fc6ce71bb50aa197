"""The loops of a recurrent layer on a CPU.

Directions and sequences are independent and share the threads. In each step, the sums of one block of units are in
registers, and the weights of a block are read in the order in which they lie in memory::

    parallel for direction, sequence:
        for step, block of units:
            sums[gates, lanes] = inputs[step, block]
            for k: sums[gates, lanes] += hidden[k] * weights[block, k]
            hidden[block], memory[block] = gates of sums

Nothing is allocated in a step. The function is scheduled by its construction, and any pipeline for CPUs compiles it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from .cell import LANES, Recurrence
from .loops import Steps, declare, index


def cpu_function(recurrence: Recurrence, steps: int | None, batch: int | None) -> Any:
    """Return the function of loops; ``None`` for a size that is open until it runs."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        sizes = [
            tirx.Var(name, "int64") if size is None else index(size)
            for name, size in (("steps", steps), ("batch", batch))
        ]
        tensors = declare(recurrence, *sizes)
        tasks = index(recurrence.directions) * sizes[1]
        is_one = recurrence.directions * (batch or 0) == 1
        with (T.serial if is_one else T.parallel)(tasks) as task:
            direction, row = tirx.floordiv(task, sizes[1]), tirx.floormod(task, sizes[1])
            _CpuSteps(recurrence, tensors, direction, row, sizes[0]).emit()
    return builder.get()


class _CpuSteps(Steps):
    sums_scope = "global"
    lanes = LANES

    def _blocks(self) -> AbstractContextManager[Any]:
        return T.serial(index(self._recurrence.blocks))  # type: ignore[no-any-return]

    def _lanes(self) -> AbstractContextManager[Any]:
        return T.vectorized(index(LANES))  # type: ignore[no-any-return]

    def _copy(self, value: Callable[[Any], Any], stores: Sequence[Callable[[Any, Any], None]]) -> None:
        whole, rest = divmod(self._recurrence.hidden, LANES)
        if whole:
            with T.serial(index(whole)) as block:
                for store in stores:
                    with self._lanes() as lane:
                        unit = block * index(LANES) + lane
                        store(unit, value(unit))
        if rest:
            with T.serial(index(rest)) as last:
                unit = index(whole * LANES) + last
                for store in stores:
                    store(unit, value(unit))

    def _fill(self, state: Any, first: int, last: int) -> None:
        if first < last:
            with T.serial(index(last - first)) as unit:
                T.buffer_store(state, tirx.const(0, self._recurrence.wide), [index(first) + unit])

    def _allocate(self, size: int) -> Any:
        return T.alloc_buffer([index(size)], self._recurrence.wide, layout=None)
