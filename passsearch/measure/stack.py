"""Where the stack begins decides how fast a kernel runs, so a timing must not rest on one beginning.

A kernel's spilled values lie on the stack. Where they share their low address bits with the data it works on, stores
and loads wait for each other, and the same binary takes 70 ms or 110 ms (``benchmarks/stack_depth.py``). The system
draws the beginning of the main thread's stack anew for every process, so a whole process is fast or slow; the stacks of
other threads begin at a page, always at the same place of it. Source: Mytkowicz et al., Producing wrong data without
doing anything obviously wrong, ASPLOS 2009; Curtsinger and Berger, STABILIZER, ASPLOS 2013.
"""

import ctypes
from collections.abc import Callable
from typing import TypeVar

DEPTHS = 32
"""A level takes some 2 KB of stack (2384 bytes on Python 3.10, 2000 on 3.11), so these come to lie at as many different
places modulo the 4096 bytes that matter; where they begin differs from process to process."""

Value = TypeVar("Value")

_Callback = ctypes.CFUNCTYPE(None)


def at_depth(levels: int, call: Callable[[], Value]) -> Value:
    """Call a function so many C calls deeper on the stack."""
    if levels == 0:
        return call()
    outcome: list[Value] = []
    failure: list[BaseException] = []

    def descend() -> None:
        try:
            outcome.append(at_depth(levels - 1, call))
        except BaseException as error:  # noqa: BLE001 - raised again below: C has no way to pass it on
            failure.append(error)

    _Callback(descend)()
    if failure:
        raise failure[0]
    return outcome[0]
