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

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tvm import DataType, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from .cell import LANES, Recurrence
from .loops import Steps, Store, declare, index, is_single, own_sizes

SHARED_BYTES = 4 << 20
"""Recurrent weights of a single sequence from which threads share its units.

They wait for each other in each step. Where another process takes one of their cores, a step lasts as long as that one
holds it, so a step must have the work of an ordinary kernel: with 1 MiB of weights, 100 steps took 2 ms on two idle
cores and 24 to 40 on busy ones, where one thread took 2.7.
"""


def cpu_function(recurrence: Recurrence, steps: Any, batch: Any) -> Any:
    """Return the function of loops; a size that is no number is open until it runs."""
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        sizes = own_sizes(steps, batch)
        tensors = declare(recurrence, *sizes)
        if recurrence.directions == 1 and is_single(sizes[1]):
            is_shared = weight_bytes(recurrence) >= SHARED_BYTES
            kind = _SharedSteps if is_shared else _CpuSteps
            kind(recurrence, tensors, index(0), index(0), sizes[0]).emit()
        else:
            with T.parallel(index(recurrence.directions) * sizes[1]) as task:
                direction, row = tirx.floordiv(task, sizes[1]), tirx.floormod(task, sizes[1])
                _CpuSteps(recurrence, tensors, direction, row, sizes[0]).emit()
    return builder.get()


def weight_bytes(recurrence: Recurrence) -> int:
    """Return the size of the recurrent weights of one direction."""
    return recurrence.hidden**2 * recurrence.gates * int(DataType(recurrence.dtype).bits) // 8


class _CpuSteps(Steps):
    """The loops of one thread."""

    sums_scope = "global"
    lanes = LANES

    def _blocks(self) -> AbstractContextManager[Any]:
        return T.serial(index(self._recurrence.blocks))  # type: ignore[no-any-return]

    def _lanes(self) -> AbstractContextManager[Any]:
        return T.vectorized(index(LANES))  # type: ignore[no-any-return]

    def _copy(self, value: Callable[[Any], Any], store: Store) -> None:
        with T.serial(index(self._recurrence.blocks)) as block:
            self._copy_block(block, value, store)

    def _copy_block(self, block: Any, value: Callable[[Any], Any], store: Store) -> None:
        whole, rest = divmod(self._recurrence.hidden, LANES)
        if not rest:
            self._copy_vector(block, value, store)
            return
        with T.If(block < index(whole)):
            with T.Then():
                self._copy_vector(block, value, store)
            with T.Else(), T.serial(index(rest)) as last:
                unit = index(whole * LANES) + last
                store(unit, value(unit))

    def _copy_vector(self, block: Any, value: Callable[[Any], Any], store: Store) -> None:
        with self._lanes() as lane:
            unit = block * index(LANES) + lane
            store(unit, value(unit))

    def _fill(self, state: Any, first: int, last: int) -> None:
        if first < last:
            with T.serial(index(last - first)) as unit:
                T.buffer_store(state, tirx.const(0, self._recurrence.wide), [index(first) + unit])

    def _allocate(self, size: int) -> Any:
        return T.alloc_buffer([index(size)], self._recurrence.wide, layout=None)


class _SharedSteps(_CpuSteps):
    """The loops of threads that share the units of one sequence.

    They start once for all steps. LLVM's code generator of TVM splits each parallel loop within the region into equal
    parts, one for each thread (``codegen_cpu.cc``).
    """

    def _threads(self) -> AbstractContextManager[Any]:
        return T.attr({"pragma_parallel_launch_point": 1})  # type: ignore[no-any-return]

    def _together(self) -> AbstractContextManager[Any]:
        return T.attr({"pragma_parallel_barrier_when_finish": 1})  # type: ignore[no-any-return]

    def _blocks(self) -> AbstractContextManager[Any]:
        return T.parallel(index(self._recurrence.blocks))  # type: ignore[no-any-return]
