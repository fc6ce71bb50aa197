"""Small Relax modules for the scripts of this folder: made, run, and their kernels listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from passsearch.standalone.relax.deployment.lowering import lower


def network(shape: Sequence[int], body: Callable[..., Any], dtype: str) -> Any:
    """Return a module whose main applies ``body`` to one input."""
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(body(data)))
        builder.emit_func_output(result)
    return builder.get()


def run(module: Any, value: Any, target: Any) -> Any:
    """Return the output of a module for one input."""
    with target:
        library = relax.build(lower(module, level=0, target=target), target, relax_pipeline=None)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(value)).numpy()


def kernel_calls(module: Any) -> list[str]:
    """Return the names of the kernels that main calls."""
    calls: list[str] = []

    def visit(call: Any) -> None:
        if getattr(call.op, "name", "") == "relax.call_tir":
            calls.append(call.args[0].name_hint)

    tvm_ffi.structural_walk(module["main"], (relax.Call, visit))
    return calls
