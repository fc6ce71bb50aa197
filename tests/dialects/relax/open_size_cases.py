"""Runs networks whose sizes are open with and without ``ScheduleCPU`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_open_sizes.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from schedule_cases import TARGETS, Body, weight
from small_modules import network
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

OPEN = tirx.Var("n", "int64")
LENGTHS = (1, 2, 7, 24, 37)
"""Sizes at which each network runs; most are no multiples of a tile or of a vector."""


def attention(value: Any) -> Any:
    scores = op.matmul(value, op.permute_dims(value, [0, 2, 1]))
    return op.matmul(op.nn.softmax(op.multiply(scores, relax.const(0.1, "float32")), axis=-1), value)


CASES: dict[str, tuple[Sequence[Any], Body]] = {
    "product": ((OPEN, 64), lambda value: op.matmul(value, weight(64, 48))),
    "product with bias and relu": (
        (1, OPEN, 40),
        lambda value: op.nn.relu(op.add(op.matmul(value, weight(40, 56)), weight(56))),
    ),
    "product of odd columns": ((OPEN, 64), lambda value: op.matmul(value, weight(64, 13))),
    "product of an open sum": ((8, OPEN), lambda value: op.matmul(value, op.permute_dims(value))),
    "batched product": ((OPEN, 5, 32), lambda value: op.matmul(value, weight(32, 16))),
    "attention": ((2, OPEN, 16), attention),
    "softmax of open rows": ((3, OPEN, 64), lambda value: op.nn.softmax(value, axis=-1)),
    "softmax along an open size": ((5, OPEN), lambda value: op.nn.softmax(value, axis=-1)),
    "layer norm": ((1, OPEN, 64), lambda value: op.nn.layer_norm(value, weight(64), weight(64), axes=-1)),
    "elementwise": ((OPEN, 32), lambda value: op.multiply(op.tanh(value), value)),
    "elementwise along an open size": ((3, OPEN), lambda value: op.multiply(op.tanh(value), value)),
    "transpose": ((OPEN, 12), lambda value: op.add(op.permute_dims(value), relax.const(1.0, "float32"))),
    "convolution of open images": ((OPEN, 4, 8, 8), lambda value: op.nn.conv2d(value, weight(16, 4, 3, 3), padding=1)),
    "mean": ((OPEN, 32), lambda value: op.mean(value, [0], keepdims=True)),
}


def case(name: str, target: Any) -> dict[str, Any]:
    shape, body = CASES[name]
    fusion = (transform.AnnotateTIROpPattern(), transform.FuseOps(fuse_opt_level=2), transform.FuseTIR())
    with target, tvm.transform.PassContext(opt_level=4):
        plain = tvm.transform.Sequential((transform.LegalizeOps(), *fusion))(network(shape, body, "float32"))
        scheduled = ScheduleCPU()(ExpandMath()(plain.clone()))
    functions = [function for _, function in scheduled.functions_items() if isinstance(function, tirx.PrimFunc)]
    text = scheduled.script()
    if "--print" in sys.argv:
        print(text)
    with target:
        built = [
            relax.build(lower(module, level=0, target=target), target, relax_pipeline=None)
            for module in (plain, scheduled)
        ]
    machines = [relax.VirtualMachine(each, tvm.cpu()) for each in built]
    deviations = []
    for length in LENGTHS:
        sizes = [length if size is OPEN else size for size in shape]
        value = np.random.default_rng(length).standard_normal(sizes).astype("float32")
        expected, actual = (machine["main"](tvm.runtime.tensor(value)).numpy() for machine in machines)
        assert actual.shape == expected.shape
        deviations.append(float(np.abs(actual - expected).max() / np.abs(expected).max()))
    return {
        "scheduled": [bool(function.attrs and SCHEDULED in function.attrs) for function in functions],
        "deviation": max(deviations),
        "vectors": "T.vectorized(" in text,
        "threads": "T.parallel(" in text,
        "tiles": "T.unroll(" in text,
    }


if __name__ == "__main__":
    for processor, target in TARGETS.items():
        for name in list(CASES)[:: int(sys.argv[1])]:
            if len(sys.argv) < 3 or name in sys.argv:
                print(json.dumps({"case": f"{name} on {processor}", **case(name, target)}), flush=True)
