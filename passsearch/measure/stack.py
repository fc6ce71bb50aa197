"""Starts timed runs at different depths of the stack, because the depth changes the speed of a kernel.

A kernel keeps spilled values on the stack. If these share their low address bits with the data it works on, stores and
loads wait for each other, and the same binary takes 70 ms or 110 ms (docs/evidence/measurement.md). For every process
the system draws a new start of the main thread's stack, so a whole process is fast or slow. The stacks of other threads
always start at the same offset of a page. Sources: Mytkowicz et al., Producing wrong data without doing anything
obviously wrong, ASPLOS 2009; Curtsinger and Berger, STABILIZER, ASPLOS 2013.
"""

import ctypes
from collections.abc import Callable
from typing import TypeVar

# One level takes about 2 KB of stack (2384 bytes on Python 3.10, 2000 on 3.11), so successive levels have different
# offsets modulo the 4096 bytes that matter.
DEPTHS = 32
"""Number of different depths that runs start at."""

Value = TypeVar("Value")

_Callback = ctypes.CFUNCTYPE(None)


def call_at_depth(levels: int, call: Callable[[], Value]) -> Value:
    """Call a function from ``levels`` C calls deeper on the stack and return its result."""
    if levels == 0:
        return call()
    results: list[Value] = []
    errors: list[BaseException] = []

    def descend() -> None:
        try:
            results.append(call_at_depth(levels - 1, call))
        except BaseException as error:  # noqa: BLE001 - C cannot pass an exception on; it is raised again below
            errors.append(error)

    # A Python call alone does not move the C stack since Python 3.11; a callback from C does.
    _Callback(descend)()
    if errors:
        raise errors[0]
    return results[0]
