"""Lists and takes out kernels of small networks, and prints one JSON line per network.

A script for an interpreter with TVM's Relax: ``test_isolated_kernels.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tvm
from small_modules import network
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.isolated_kernels import (
    IsolatedKernel,
    KernelArguments,
    build_kernels,
    constant_bytes,
    isolate,
    list_kernels,
)
from passsearch.standalone.relax.deployment.lowering import target_options

TARGET = tvm.target.Target(target_options("llvm"))
SHAPE = (8, 8)
WEIGHT = relax.const(np.full(SHAPE, 0.5, "float32"))

NETWORKS: dict[str, Callable[[Any], Any]] = {
    "a kernel without arguments": lambda data: op.add(data, op.full(SHAPE, relax.const(3.0), "float32")),
    "one constant in two calls": lambda data: op.matmul(op.matmul(data, WEIGHT), WEIGHT),
    "a constant in one call of two": lambda data: op.matmul(op.matmul(data, WEIGHT), data),
    "indices": lambda data: op.take(data, relax.const(np.array([7, 0], "int64")), axis=0),
}


def case(body: Callable[[Any], Any]) -> dict[str, Any]:
    """Return what is listed, and whether each kernel alone computes the same with a buffer and without one."""
    module = transform.LegalizeOps()(network(SHAPE, body, "float32"))
    listed = list_kernels(module, {})
    own = [IsolatedKernel(isolate(module, each.name), KernelArguments(0, tvm.cpu())) for each in listed]
    alone = [IsolatedKernel(isolate(module, each.name), KernelArguments(1 << 20, tvm.cpu())) for each in listed]
    build_kernels([*own, *alone], TARGET, threads=1)
    outputs = [[array for each in kernels for array in each.outputs()] for kernels in (own, alone)]
    for _ in range(3):
        for each in alone:
            each.run()  # an index out of bounds would end the process
    return {
        "kernels": [[each.name, each.calls, each.has_constants] for each in listed],
        "parameters": [len(isolate(module, each.name)["main"].params) for each in listed],
        "constant bytes": constant_bytes(module),
        "shapes": [list(output.shape) for each in alone for output in each.outputs()],
        "same": all(map(np.array_equal, *outputs)),
    }


def stretches() -> dict[str, Any]:
    """Return where the constants of two variants lie in the buffer, which run in turns and differ in their sizes."""
    arguments, begins = KernelArguments(1 << 14, tvm.cpu()), []
    calls = []
    for columns in (8, 12):
        weight = relax.const(np.ones((8, columns), "float32"))
        body = partial(lambda weight, data: op.matmul(data, weight), weight)
        module = transform.LegalizeOps()(network(SHAPE, body, "float32"))
        calls.append(module["main"].body.blocks[0].bindings[0].value)
    variants = [arguments.argument_rows(call, arguments.own(call)) for call in calls]
    for turn in range(100):
        variant = variants[turn % 2]
        tensor = arguments.next_row(variant)[1]
        begins.append([tensor.data_ptr(), variant.bytes])
    least = min(begin for begin, _ in begins)
    return {
        "case": "stretches",
        "places": [[begin - least, size] for begin, size in begins],
        "aligned": least % 64 == 0,
    }


if __name__ == "__main__":
    for name, body in NETWORKS.items():
        print(json.dumps({"case": name, **case(body)}), flush=True)
    print(json.dumps(stretches()), flush=True)
