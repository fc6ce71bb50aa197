"""Imports small networks and writes and reads them back; prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_importer.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer, ir_file
from passsearch.dialects.relay.bridge import RelayBridge
from passsearch.dialects.relay.constants import Constants

RNG = np.random.default_rng(0)


def constant(*shape: int) -> Any:
    """Return a constant of normal values."""
    return relay.const(RNG.standard_normal(shape).astype("float32"))


def products() -> dict[str, Any]:
    """Return matrix products as importers write them, under the operator they must become."""
    x, y = relay.var("x", shape=(2, 5, 8)), relay.var("y", shape=(2, 8, 6))
    transposed, batch = relay.transpose(constant(6, 8)), relay.nn.batch_matmul
    broadcast = relay.reshape(relay.broadcast_to(transposed, (2, 8, 6)), (-1, 8, 6))
    return {
        "nn.dense of a shared weight": batch(x, broadcast, transpose_b=False),
        "nn.dense of a transposed weight": batch(x, relay.expand_dims(relay.transpose(transposed), 0)),
        "nn.dense of a batch of one": batch(x, relay.expand_dims(transposed, 0), transpose_b=False),
        "nn.batch_matmul of one input and equal weights": batch(
            relay.var("z", shape=(1, 5, 8)), relay.const(np.ones((3, 6, 8), "float32"))
        ),
        "nn.batch_matmul of different weights": batch(x, constant(2, 6, 8)),
        "nn.batch_matmul of two inputs": batch(x, y, transpose_b=False),
    }


def main() -> None:
    """Print the results of products first, then those of files."""
    for name, body in products().items():
        before = relay.transform.InferType()(tvm.IRModule.from_expr(body))
        after = imported(before)
        result = {"case": name, "operators": operators(after), "same": same_outputs(before, after)}
        print(json.dumps(result), flush=True)
    print(json.dumps({"case": "parallel", **parallel_layers()}), flush=True)
    print(json.dumps({"case": "external weights", **external_weights()}), flush=True)


def parallel_layers() -> dict[str, bool]:
    """Import three layers on one value, with redundant layouts around them, as PyTorch's importer writes them."""
    x = relay.var("x", shape=(1, 5, 8))
    layers = []
    for units in (6, 7, 8):
        data = relay.reshape(relay.broadcast_to(x, (1, 5, 8)), (-1, 5, 8))
        weight = relay.reshape(relay.broadcast_to(relay.transpose(constant(units, 8)), (1, 8, units)), (-1, 8, units))
        layers.append(relay.squeeze(relay.nn.batch_matmul(data, weight, transpose_b=False), axis=[]))
    before = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Tuple(layers)))
    after = imported(before)
    operands: list[relay.Expr] = []

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call) and expr.op.name == "nn.dense":
            operands.append(expr.args[0])

    relay.analysis.post_order_visit(after["main"], visit)
    again = imported(after)
    return {
        "one value": len(operands) == 3 and all(operand.same_as(operands[0]) for operand in operands),
        "same": same_outputs(before, after),
        "idempotent": bool(tvm.ir.structural_equal(after, again)),
    }


def imported(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module after it was written and loaded as an importer does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        ir_file.save(module, path)
        return importer.load(ModelSource(path, "ir", {}))


def external_weights() -> dict[str, bool]:
    """Write and read a module with a constant that is used twice, an equal one, and a small one."""
    x, one = relay.var("x", shape=(16, 16)), constant(16, 16)
    equal = relay.const(one.data.numpy())
    body = relay.add(relay.multiply(relay.add(relay.add(x, one), one), equal), relay.const(np.float32(2.0)))
    module = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        RelayBridge("llvm").save_with_external_weights(module, path)
        again = ir_file.read(ModelSource(path, "ir", {}))
        beside = tvm.runtime.load_param_dict(path.with_suffix(".params").read_bytes())
    constants = Constants()
    before, after = (constants.strip(version)[0] for version in (module, again))
    return {"equal": bool(tvm.ir.structural_equal(before, after)), "large ones only": len(beside) == 2}


def operators(module: tvm.IRModule) -> list[str]:
    """Return the products of a module, `NN` added if the second operand is not transposed."""
    result: list[str] = []
    names = ("nn.dense", "nn.batch_matmul")

    def visit(expr: relay.Expr) -> None:
        if isinstance(expr, relay.Call) and expr.op.name in names:
            result.append(f"{expr.op.name}{'' if expr.op.name == 'nn.dense' or expr.attrs.transpose_b else ' NN'}")

    relay.analysis.post_order_visit(module["main"], visit)
    return result


def same_outputs(left: tvm.IRModule, right: tvm.IRModule) -> bool:
    """Return True if both modules, built without optimisation, give equal outputs on random inputs."""
    inputs = {
        param.name_hint: RNG.standard_normal([int(size) for size in param.checked_type.shape])
        for param in left["main"].params
    }
    outputs = []
    for module in (left, right):
        with tvm.transform.PassContext(opt_level=0):
            built = relay.build(module, "llvm -mtriple=x86_64-unknown-linux-gnu")
        executor = graph_executor.GraphModule(built["default"](tvm.cpu()))
        executor.run(**{name: array.astype("float32") for name, array in inputs.items()})
        outputs.append([executor.get_output(index).numpy() for index in range(executor.get_num_outputs())])
    return all(np.allclose(*pair, rtol=1e-4, atol=1e-4) for pair in zip(*outputs, strict=True))


if __name__ == "__main__":
    main()
