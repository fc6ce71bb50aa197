"""The loops of a recurrent layer on a GPU: one block of threads for each sequence and direction.

A thread computes some units; the states are in shared memory. Threads wait for each other after each phase of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.tirx.script import builder as T  # noqa: N812

from .cell import KINDS, LANES, Recurrence, recurrences
from .layer import recurrent_function
from .loops import Steps, Store, declare, index, own_sizes

MOST_THREADS = 512
"""Most threads of a block."""


def bind_recurrences(module: Any) -> Any:
    """Return the module with the loops of recurrent layers in the form for GPUs.

    A function that has other loops than a layer's is left alone, whatever its attribute says.
    """
    found = recurrences(module)
    module = module.clone() if found else module
    for name, recurrence in found.items():
        variable = module.get_global_var(name)
        function = module[variable]
        sizes = open_sizes(recurrence, function)
        plain = recurrent_function(recurrence, *sizes) if sizes else None
        if sizes and tvm_ffi.structural_equal(plain, function.without_attr("global_symbol")):
            bound = gpu_function(recurrence, *sizes)
            for key, value in function.attrs.items():
                bound = bound.with_attr(key, value)
            module.update_func(variable, bound)
    return module


def open_sizes(recurrence: Recurrence, function: Any) -> tuple[Any, ...]:
    """Return the numbers of steps and sequences that a function was made for, a variable for one that is open.

    They are none for a function of other results than a layer's.
    """
    results = list(function.params)[-1 - KINDS[recurrence.kind].states :]
    shape = list(getattr(results[0], "shape", ())) if results else []
    return (shape[0], shape[2]) if len(shape) == 4 else ()


def gpu_function(recurrence: Recurrence, steps: Any, batch: Any, *, most_threads: int = MOST_THREADS) -> Any:
    """Return the function of loops; a size that is no number is open until it runs."""
    units = recurrence.blocks * LANES
    threads = max(count for count in range(1, most_threads + 1) if units % count == 0)
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        sizes = own_sizes(steps, batch)
        tensors = declare(recurrence, *sizes)
        with (
            T.thread_binding(index(recurrence.directions) * sizes[1], thread="blockIdx.x") as task,
            T.thread_binding(index(threads), thread="threadIdx.x") as thread,
        ):
            direction, row = tirx.floordiv(task, sizes[1]), tirx.floormod(task, sizes[1])
            _GpuSteps(recurrence, tensors, direction, row, sizes[0], thread=thread, threads=threads).emit()
    return builder.get()


class _GpuSteps(Steps):
    sums_scope = "local"
    lanes = 1

    def __init__(self, *arguments: Any, thread: Any, threads: int) -> None:
        super().__init__(*arguments)
        self._thread, self._threads_count = thread, threads
        self._unit: Any = None

    @contextmanager
    def _blocks(self) -> Iterator[Any]:
        with T.serial(index(self._recurrence.blocks * LANES // self._threads_count)) as number:
            self._unit = number * index(self._threads_count) + self._thread
            yield tirx.floordiv(self._unit, index(LANES))

    def _lanes(self) -> AbstractContextManager[Any]:
        return nullcontext(tirx.floormod(self._unit, index(LANES)))

    def _copy(self, value: Callable[[Any], Any], store: Store) -> None:
        with self._blocks() as block:
            self._copy_block(block, value, store)

    def _copy_block(self, block: Any, value: Callable[[Any], Any], store: Store) -> None:
        unit = self._unit
        with T.If(unit < index(self._recurrence.hidden)), T.Then():
            store(unit, value(unit))

    def _fill(self, state: Any, first: int, last: int) -> None:
        # The whole state: the same thread writes the first state over the zeros afterwards.
        with T.serial(index(last // self._threads_count)) as number:
            unit = number * index(self._threads_count) + self._thread
            T.buffer_store(state, tirx.const(0, self._recurrence.wide), [unit])

    def _allocate(self, size: int) -> Any:
        return T.alloc_buffer([index(size)], self._recurrence.wide, scope="shared", layout=None)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        _wait()
        yield

    @contextmanager
    def _together(self) -> Iterator[None]:
        yield
        _wait()


def _wait() -> None:
    T.evaluate(T.tvm_storage_sync("shared"))
