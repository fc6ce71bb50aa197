"""How far a module is on its way to code: passes for operators find none once these are loops, and so on.

Told from the module itself and not from the passes it went through: equal IR is one state, however it was reached.
"""

import functools

import tvm
import tvm_ffi
from tvm import relax, tirx

from passsearch.dialects.relax.lowering import ALLOCATIONS

OPERATORS, LOOPS, SCHEDULES, MEMORY = "operators", "loops", "schedules", "memory"
"""Operators; functions that are loops instead; some of these scheduled; calls that write into what is allocated."""

SCHEDULED = "tirx.is_scheduled"
"""The attribute that TVM's own schedule rules leave on a function (``s_tir/dlight/base/transform.py``)."""

_VIEW = "relax.reshape"
"""``LegalizeOps`` has a word for it, and it stays where it is a view."""


def phase(module: tvm.IRModule) -> str:
    """One of the four."""
    called = _called(module)
    if called & set(ALLOCATIONS):
        return MEMORY
    if any(_becomes_loops(name) for name in called - {_VIEW}):
        return OPERATORS
    functions = (function for _, function in module.functions_items() if isinstance(function, tirx.PrimFunc))
    return SCHEDULES if any(each.attrs and SCHEDULED in each.attrs for each in functions) else LOOPS


def _called(module: tvm.IRModule) -> set[str]:
    """Names of the operators that any function calls."""
    found = set[str]()

    def visit(call: relax.Call) -> None:
        if isinstance(call.op, tvm.ir.Op):
            found.add(str(call.op.name))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return found


@functools.cache
def _becomes_loops(name: str) -> bool:
    return tvm.ir.Op.get(name).get_attr("FLegalize") is not None
