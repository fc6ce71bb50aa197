"""Runs normalisations with and without ``ExpandNorms`` and prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_expand_norms.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls, network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, ScheduleRows
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.expand_norms import ExpandNorms
from passsearch.standalone.relax.graph_rewrites.row_kernels import FuseRows

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

Body = Callable[[Any], Any]


def weight(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(RANDOM.standard_normal(shape).astype(dtype))


def layer_norm(*sizes: int, axes: list[int], dtype: str = "float32", **rest: bool) -> Body:
    def body(data: Any) -> Any:
        scale, shift = (weight(*sizes, dtype=dtype) for _ in range(2))
        return op.nn.layer_norm(data, scale, shift, axes=axes, epsilon=1e-5, **rest)

    return body


def written_norm(axes: list[int], *shape: int) -> Body:
    """Return an instance norm as ONNX's importer writes it."""

    def body(data: Any) -> Any:
        variance = op.add(op.variance(data, axes, keepdims=True), relax.const(1e-5, "float32"))
        norm = op.divide(op.subtract(data, op.mean(data, axes, keepdims=True)), op.sqrt(variance))
        return op.add(op.multiply(norm, weight(*shape)), weight(*shape))

    return body


CASES: dict[str, tuple[tuple[int, ...], Body]] = {
    "layer norm": ((2, 20, 64), layer_norm(64, axes=[-1])),
    "layer norm without scale": ((2, 20, 64), layer_norm(64, axes=[2], scale=False)),
    "layer norm without shift": ((2, 20, 64), layer_norm(64, axes=[2], center=False)),
    "layer norm over two axes": ((20, 4, 32), layer_norm(4, 32, axes=[1, 2])),
    "layer norm over all axes": ((20, 32), layer_norm(20, 32, axes=[0, 1])),
    "layer norm over channels": ((2, 64, 10), layer_norm(64, axes=[1])),
    "layer norm in float16": ((20, 64), layer_norm(64, axes=[-1], dtype="float16")),
    "root mean square": ((20, 64), lambda data: op.nn.rms_norm(data, weight(64), axes=-1)),
    "group norm": ((2, 24, 5, 7), lambda data: op.nn.group_norm(data, weight(24), weight(24), 4, 1, [2, 3])),
    "group norm of one line": ((2, 24, 35), lambda data: op.nn.group_norm(data, weight(24), weight(24), 4, 1, [2])),
    "instance norm": ((2, 24, 5, 7), lambda data: op.nn.instance_norm(data, weight(24), weight(24), 1, [2, 3])),
    "instance norm of channels last": (
        (2, 5, 7, 24),
        lambda data: op.nn.instance_norm(data, weight(24), weight(24), 3, [1, 2]),
    ),
    "mean and variance": ((2, 24, 5, 7), written_norm([2, 3], 24, 1, 1)),
    "mean and variance of all axes": ((3, 5, 7), written_norm([0, 1, 2], 7)),
    "mean and variance of the last axis": ((2, 24, 40), written_norm([-1], 40)),
    "mean and variance, scaled by line": ((2, 24, 5, 7), written_norm([2, 3], 5, 1)),
    "mean and variance, scaled by image": ((2, 24, 5, 7), written_norm([2, 3], 2, 1, 1, 1)),
    "mean and variance of outer axes": ((6, 5, 7), written_norm([0, 2], 5, 1)),
    "no norm": ((2, 20, 64), op.tanh),
}
"""Shape of the data, and the operator."""


def lowered(module: Any) -> Any:
    with TARGET, tvm.transform.PassContext(opt_level=3):
        loops = FuseRows()(transform.AnnotateTIROpPattern()(transform.LegalizeOps()(module)))
        return ScheduleCPU()(ScheduleRows()(transform.FuseTIR()(transform.FuseOps(2)(loops))))


def case(name: str) -> dict[str, Any]:
    shape, body = CASES[name]
    dtype = "float16" if "float16" in name else "float32"
    module = network(shape, body, dtype)
    expanded = ExpandNorms()(module)
    value = RANDOM.standard_normal(shape).astype(dtype)
    expected, result = (run(lowered(each), value, TARGET) for each in (module, expanded))
    return {
        "changed": not tvm_ffi.structural_equal(module, expanded),
        "well_formed": bool(relax.analysis.check_well_formed(expanded)),
        "kernels": len(kernel_calls(lowered(expanded))),
        "error": float(np.max(np.abs(result - expected))),
        "same_shape": result.shape == expected.shape == shape,
    }


if __name__ == "__main__":
    for name in list(CASES)[:: int(sys.argv[1])]:
        print(json.dumps({"case": name, **case(name)}), flush=True)
