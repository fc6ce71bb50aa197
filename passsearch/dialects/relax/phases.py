"""The lowering phase of a Relax module. A pass for operators, for example, finds none once they are loops.

The phase is read from the module and not from the passes that made it, because equal IR is one state, however it was
reached.
"""

import functools

import tvm
import tvm_ffi
from tvm import relax, tirx

from passsearch.dialects.relax.recurrence.cell import RECURRENCE
from passsearch.standalone.relax.cpu_schedules.cpu_pass import SCHEDULED
from passsearch.standalone.relax.deployment.lowering import ALLOCATIONS

OPERATORS, LOOPS, SCHEDULES, MEMORY = "operators", "loops", "schedules", "memory"
"""A module of operators; of loops; of loops partly scheduled; of calls that write into allocated memory."""

# ``LegalizeOps`` makes loops of a reshape, but a later pass makes it a view again; so it does not show the phase.
_VIEW = "relax.reshape"


def phase(module: tvm.IRModule) -> str:
    """Return the phase of a module: ``operators``, ``loops``, ``schedules`` or ``memory``."""
    operators = _operators(module)
    if operators & set(ALLOCATIONS):
        return MEMORY
    if any(_becomes_loops(name) for name in operators - {_VIEW}):
        return OPERATORS
    functions = (function for _, function in module.functions_items() if isinstance(function, tirx.PrimFunc))
    attributes = [function.attrs or {} for function in functions]
    # Recurrent layers are imported with their schedule.
    is_scheduled = any(SCHEDULED in each and RECURRENCE not in each for each in attributes)
    return SCHEDULES if is_scheduled else LOOPS


def _operators(module: tvm.IRModule) -> set[str]:
    """Return the names of the operators that any function calls."""
    names = set[str]()

    def visit(call: relax.Call) -> None:
        if isinstance(call.op, tvm.ir.Op):
            names.add(str(call.op.name))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return names


@functools.cache
def _becomes_loops(name: str) -> bool:
    """Return True if ``LegalizeOps`` makes loops of an operator."""
    return tvm.ir.Op.get(name).get_attr("FLegalize") is not None
