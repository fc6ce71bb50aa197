"""Small parallel loops inside other loops become serial: starting threads takes longer than such a loop.

TVM's function of ScatterND starts all threads once for every index. Schedules leave it as it is, because it is no block
with axes.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import tirx

from .sizes import MIN_PARALLEL_ELEMENTS


def run_small_loops_alone(function: Any) -> Any:
    """Return a function in which no loop starts threads again and again for few elements each."""
    inner: list[Any] = []

    def collect(loop: Any) -> None:
        if loop.kind == tirx.ForKind.SERIAL:
            inner.extend(each.loop_var for each in _loops(loop.body) if _is_small(each))

    def make_serial(loop: Any) -> Any:
        if not any(variable.same_as(loop.loop_var) for variable in inner):
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)

    tvm_ffi.structural_walk(function.body, (tirx.For, collect))
    if not inner:
        return function
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, make_serial)))


def _is_small(loop: Any) -> bool:
    is_known = isinstance(loop.extent, tirx.IntImm) and int(loop.extent) < MIN_PARALLEL_ELEMENTS
    return is_known and loop.kind == tirx.ForKind.PARALLEL and not _loops(loop.body)


def _loops(body: Any) -> list[Any]:
    loops: list[Any] = []
    tvm_ffi.structural_walk(body, (tirx.For, loops.append))
    return loops
