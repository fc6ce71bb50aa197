"""Runs products and convolutions with and without ``PadWeights`` and prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_pad_weights.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.pad_weights import PadWeights

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)
N = "n"
"""An open size."""

CASES = {
    "product": ((N, 32), (32, 101), op.matmul),
    "batch": ((N, 6, 32), (32, 101), op.matmul),
    "weights for each batch": ((3, N, 32), (3, 32, 101), op.matmul),
    "in float64": ((N, 32), (32, 101), op.matmul),
    "known sizes": ((6, 32), (32, 101), op.matmul),
    "whole vectors": ((N, 32), (32, 104), op.matmul),
    "few columns": ((N, 32), (32, 33), op.matmul),
    "one dimension": ((N, 67), (67,), op.matmul),
    "convolution": ((N, 8, 9, 9), (67, 8, 3, 3), op.nn.conv2d),
    "convolution of channels last": (
        (N, 9, 9, 8),
        (3, 3, 8, 67),
        partial(op.nn.conv2d, data_layout="NHWC", kernel_layout="HWIO", strides=2, padding=1),
    ),
    "convolution of whole vectors": ((N, 8, 9, 9), (72, 8, 3, 3), op.nn.conv2d),
    "convolution of groups": ((N, 8, 9, 9), (66, 4, 3, 3), partial(op.nn.conv2d, groups=2)),
}
"""Shapes of data and weights, and the operator."""

SIZE = 3
"""What an open size is in a run."""


def scheduled(module: Any) -> Any:
    with TARGET, tvm.transform.PassContext(opt_level=3):
        module = transform.AnnotateTIROpPattern()(transform.LegalizeOps()(module))
        return ScheduleCPU()(transform.FuseOps(2)(module))


def case(
    data: tuple[Any, ...], weights: tuple[int, ...], operator: Callable[[Any, Any], Any], *, dtype: str
) -> dict[str, Any]:
    constant = relax.const(RANDOM.standard_normal(weights).astype(dtype), dtype)
    shape = [tirx.Var(N, "int64") if size == N else size for size in data]
    module = network(shape, lambda value: operator(value, constant), dtype)
    padded = PadWeights()(module)
    value = RANDOM.standard_normal([SIZE if size == N else size for size in data]).astype(dtype)
    expected, result = (run(scheduled(each), value, TARGET) for each in (module, padded))
    return {
        "changed": not tvm_ffi.structural_equal(module, padded),
        "vectors": "T.vectorized" in scheduled(padded).script(),
        "error": float(np.max(np.abs(result - expected)) / np.max(np.abs(expected))),
        "same_shape": result.shape == expected.shape,
    }


if __name__ == "__main__":
    for name, (data, weights, operator) in CASES.items():
        dtype = name.removeprefix("in ") if name.startswith("in ") else "float32"
        print(json.dumps({"case": name, **case(data, weights, operator, dtype=dtype)}), flush=True)
