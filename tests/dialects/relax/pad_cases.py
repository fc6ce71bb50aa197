"""Runs matrix products with and without ``PadWeights`` and prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_pad_weights.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.lowering import target_options
from passsearch.dialects.relax.pad_weights import PadWeights
from passsearch.dialects.relax.schedules import ScheduleCPU

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)
CASES = {
    "odd": ((2, 6, 32), (32, 101)),
    "batch": ((3, 6, 32), (3, 32, 70)),
    "two dimensions": ((6, 32), (32, 67)),
    "whole vectors": ((6, 32), (32, 104)),
    "few columns": ((6, 32), (32, 33)),
    "one dimension": ((6, 67), (67,)),
}
"""Shapes of data and weights."""


def scheduled(module: Any) -> Any:
    with TARGET, tvm.transform.PassContext(opt_level=3):
        module = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(module))
        return ScheduleCPU()(transform.FuseOps(2)(module))


def case(data: tuple[int, ...], weights: tuple[int, ...]) -> dict[str, Any]:
    constant = relax.const(RANDOM.standard_normal(weights).astype("float32"))
    module = network(data, lambda value: op.matmul(value, constant), "float32")
    padded = PadWeights()(module)
    value = RANDOM.standard_normal(data).astype("float32")
    expected, result = (run(scheduled(each), value, TARGET) for each in (module, padded))
    return {
        "changed": not tvm_ffi.structural_equal(module, padded),
        "vectors": "T.vectorized" in scheduled(padded).script(),
        "error": float(np.max(np.abs(result - expected))),
        "same_shape": result.shape == expected.shape,
    }


if __name__ == "__main__":
    for name, (data, weights) in CASES.items():
        print(json.dumps({"case": name, **case(data, weights)}), flush=True)
