"""Runs elementary functions with and without ``ExpandMath`` and prints one JSON line per function.

A script for an interpreter with TVM's Relax: ``test_expand_math.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower, target_options
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
CASES = {
    "erf": (op.erf, np.vectorize(math.erf), 6.0),
    "tanh": (op.tanh, np.tanh, 12.0),
    "exp": (op.exp, np.exp, 87.0),
    "pow": (lambda x: op.power(x, relax.const(3.0, str(x.ty.dtype))), lambda x: x**3, 12.0),
    "sigmoid": (op.sigmoid, lambda x: 1 / (1 + np.exp(-x)), 80.0),
}
"""Operator, exact function, and the largest argument, by name."""


def network(operator: Any, size: int, dtype: str) -> Any:
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((size,), dtype))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(operator(data)))
        builder.emit_func_output(result)
    return builder.get()


def run(module: Any, values: Any) -> Any:
    with TARGET:
        library = relax.build(lower(module.clone(), level=0, target=TARGET), TARGET, relax_pipeline=None)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(values)).numpy()


def case(name: str) -> dict[str, Any]:
    operator, exact, largest = CASES[name]
    values = np.linspace(-largest, largest, 40000).astype("float32")
    with TARGET, tvm.transform.PassContext(opt_level=4):
        loops = transform.LegalizeOps()(network(operator, len(values), "float32"))
        module = ScheduleCPU()(ExpandMath()(loops.clone()))
        double = transform.LegalizeOps()(network(operator, len(values), "float64"))
        untouched = tvm_ffi.structural_equal(double, ExpandMath()(double.clone()))
    result = run(module, values)
    truth = exact(values.astype(float))
    far_below = run(module, np.full_like(values, -1e4))
    undefined = run(module, np.full_like(values, np.nan))
    return {
        "error": float(np.max(np.abs(result - truth) / np.abs(truth))),
        "calls": f"T.{name}(" in module.script(),
        "far_below": float(far_below[0]),
        "keeps_nan": bool(np.isnan(undefined).all()),
        "largest": float(np.max(np.abs(result))),
        "untouched": bool(untouched),
    }


if __name__ == "__main__":
    for name in CASES:
        print(json.dumps({"case": name, **case(name)}), flush=True)
