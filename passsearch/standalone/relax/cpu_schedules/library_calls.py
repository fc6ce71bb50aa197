"""Calls of the mathematics library for functions of which LLVM makes no vectors."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

NAMES = {"tirx.cosh": "cosh", "tirx.sinh": "sinh"}
"""Names in C of TVM's operators that have no rule for vectors of LLVM."""


def call_library(function: Any) -> Any:
    """Return a function of loops that calls the library where TVM would refuse to build a vector of it.

    TVM takes a call of a C function apart when it makes vectors of a loop; its own operators it does not.
    """

    def replace(call: Any) -> Any:
        name = NAMES.get(getattr(call.op, "name", ""))
        return call if name is None else _call(name, call.args[0])

    return tvm_ffi.structural_map(function, (tvm.ir.Call, replace))


def _call(name: str, argument: Any) -> Any:
    dtype = str(argument.ty)
    if dtype == "float64":
        return tirx.call_pure_extern(dtype, name, argument)
    # C has no functions of 16 bits.
    result = tirx.call_pure_extern("float32", f"{name}f", argument.astype("float32"))
    return result.astype(dtype)
