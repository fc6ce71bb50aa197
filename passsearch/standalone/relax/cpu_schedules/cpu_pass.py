"""What the passes that schedule functions for CPUs have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx

from .library_calls import call_library
from .registers import Registers, registers_of

SCHEDULED = "tirx.is_scheduled"
"""Attribute of a function that no schedule changes; TVM's own rules set it too (``s_tir/dlight/base/transform.py``)."""

FUSES_WITH_NOTHING = 8
"""Value of the attribute ``op_pattern``, by which TVM decides on fusion (``OpPatternKind``)."""


def cpu_pass(schedule: Callable[[Any, Registers], Any], *, name: str) -> Any:
    """Return a pass that changes a module by a function of the module and of the registers, and only for CPUs."""

    def run(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "cpu" not in target.keys:
            return module
        # FuseTIR makes functions of the groups of FuseOps. After the schedule it would drop it (``fuse_tir.cc``).
        return schedule(relax.transform.FuseTIR()(module), registers_of(target))

    return tvm.transform.module_pass(run, opt_level=0, name=name)


def unscheduled(module: Any) -> list[tuple[Any, Any]]:
    """Return the functions of loops that have no schedule yet, with the variables that name them."""
    return [
        (name, call_library(function))
        for name, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc) and not (function.attrs and SCHEDULED in function.attrs)
    ]
