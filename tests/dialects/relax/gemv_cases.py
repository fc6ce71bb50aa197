"""Applies DLight's rule for products with one vector and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_gemv_rule.py`` runs it and reads the lines.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from small_modules import network, run
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.passes import CpuGEMV, FuseTransposeMatmul

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)


def product(module: Any) -> Any:
    """Return a module whose products with transposed weights are one kernel each."""
    with TARGET:
        for step in (FuseTransposeMatmul(), transform.LegalizeOps(), transform.FuseTIR()):
            module = step(module)
    return module


def check(columns: int, length: int) -> dict[str, object]:
    """Schedule the product of one row with a stored matrix; return whether it has a schedule and computes the same."""
    weights = relax.const(tvm.runtime.tensor(RANDOM.standard_normal((columns, length)).astype("float32")))

    def body(value: Any) -> Any:
        return op.matmul(value, op.permute_dims(weights))

    shape: Sequence[int] = (1, length)
    value = RANDOM.standard_normal(shape).astype("float32")
    module = product(network(shape, body, "float32"))
    with TARGET:
        scheduled = CpuGEMV()(module)
    functions = [each for _, each in scheduled.functions_items() if isinstance(each, tirx.PrimFunc)]
    outputs = [run(each, value, TARGET) for each in (module, scheduled)]
    return {
        "case": f"{columns} x {length}",
        "scheduled": [bool(each.attrs and "tirx.is_scheduled" in each.attrs) for each in functions],
        "same": bool(np.allclose(*outputs, rtol=1e-4, atol=1e-4)),
    }


if __name__ == "__main__":
    for sizes in ((256, 256), (64, 128), (128, 16), (100, 64), (65, 130)):
        print(json.dumps(check(*sizes)))
