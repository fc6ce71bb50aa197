"""Converts layouts of small networks and prints one JSON line per network.

A script for an interpreter with TVM's Relax: ``test_layouts.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.graph_rewrites.layouts import ConvertLayout

SHAPE = (1, 4, 6, 6)
RANDOM = np.random.default_rng(0)
TWO = tvm.tirx.FloatImm("float32", 2.0)


def weight(*shape: int) -> Any:
    return relax.const(RANDOM.uniform(0.5, 1.5, shape).astype("float32"))


def convolution(data: Any) -> Any:
    return op.nn.conv2d(data, weight(8, 4, 3, 3), padding=1)


def batch_norm(data: Any) -> Any:
    return op.nn.batch_norm(data, *(weight(8) for _ in range(4)), axis=1, training=False)[0]


NETWORKS: dict[str, Callable[[Any], Any]] = {
    "batch norm": lambda data: batch_norm(convolution(data)),
    "number on the right": lambda data: op.multiply(convolution(data), TWO),
    "number on the left": lambda data: relax.Call(tvm.ir.Op.get("relax.subtract"), [TWO, convolution(data)]),
    "clip": lambda data: op.clip(convolution(data), 0.0, 2.0),
    "clip whose lower bound is above": lambda data: op.clip(convolution(data), 5.0, 2.0),
    "integer": lambda data: op.astype(
        op.add(op.astype(convolution(data), "int32"), tvm.tirx.IntImm("int32", 2)), "float32"
    ),
    "last axis squeezed": lambda data: op.squeeze(op.sum(convolution(data), [-1], keepdims=True), [-1]),
    "all axes squeezed": lambda data: op.squeeze(convolution(data)),
    "transposed": lambda data: op.permute_dims(convolution(data), [0, -1, -2, 1]),
    "groups of a vector": lambda data: op.nn.conv2d(convolution(data), weight(16, 4, 3, 3), groups=2, padding=1),
    "small groups": lambda data: op.nn.conv2d(convolution(data), weight(8, 4, 3, 3), groups=2, padding=1),
    "resized tokens": lambda data: op.add(
        op.image.resize2d(op.reshape(op.permute_dims(op.reshape(data, (1, 36, 4)), [0, 2, 1]), SHAPE), (12, 12)),
        op.image.resize2d(op.mean(convolution(data), [1], keepdims=True), (12, 12)),
    ),
    "no convolution": lambda data: op.squeeze(op.sum(op.multiply(data, TWO), [-1], keepdims=True), [-1]),
}
"""TVM's own pass crashes or fails on all networks with a number or an axis."""


def network(body: Callable[[Any], Any]) -> Any:
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(body(data)))
        builder.emit_func_output(result)
    return builder.get()


def output(module: Any, data: Any) -> Any:
    machine = relax.VirtualMachine(tvm.compile(module, tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    return machine["main"](tvm.runtime.tensor(data)).numpy()


def main() -> None:
    data = RANDOM.standard_normal(SHAPE).astype("float32")
    for name, body in NETWORKS.items():
        plain = network(body)
        before = transform.FoldBatchnormToConv2D()(plain)
        after = ConvertLayout()(before)
        same_layout = ConvertLayout("NCHW")(before)
        result = {
            "unchanged by NCHW": same_layout.same_as(before),
            "converted": 'data_layout="NHWC"' in after.script(),
            "mixed": 'data_layout="NCHW"' in after.script(),
            "resized in NHWC": [
                ' layout="NHWC"' in line for line in after.script().splitlines() if "image.resize2d" in line
            ],
            "changed": not after.same_as(before),
            "same": np.allclose(output(plain, data), output(after, data), rtol=1e-4, atol=1e-4),
        }
        print(json.dumps({"case": name, **result}), flush=True)


if __name__ == "__main__":
    main()
