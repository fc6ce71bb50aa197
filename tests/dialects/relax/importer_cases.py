"""Imports ONNX networks of one operator, builds and runs them, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_relax_onnx_import.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm import relax

from passsearch.core import PassSpec, TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import ir_file
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.dialects.relax.importers.onnx_graph import read
from passsearch.standalone.relax.deployment.lowering import lower

TARGET = tvm.target.Target({"kind": "llvm"})
CLIP = ("relax.clip",)
PAD = ("relax.nn.pad",)


def number(name: str, value: Any) -> TensorProto:
    return numpy_helper.from_array(np.asarray(value), name)


def model(node: Any, *initialisers: TensorProto, opset: int) -> onnx.ModelProto:
    tensors = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", SHAPE), ("y", None))
    ]
    graph = helper.make_graph([node], "case", tensors[:1], tensors[1:], list(initialisers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


SHAPE = [1, 3, 4, 5]
LOW, HIGH = number("low", np.float32(0)), number("high", np.float32(6))
CASES: dict[str, tuple[tuple[str, ...], onnx.ModelProto]] = {
    "clip of two bounds": (CLIP, model(helper.make_node("Clip", ["x", "low", "high"], ["y"]), LOW, HIGH, opset=13)),
    "clip of one bound": (CLIP, model(helper.make_node("Clip", ["x", "", "high"], ["y"]), HIGH, opset=13)),
    "clip of old": (CLIP, model(helper.make_node("Clip", ["x"], ["y"], min=-1.0), opset=6)),
    "clip of no bound": (
        (),
        model(helper.make_node("Clip", ["x", "low", "high"], ["y"]), number("low", np.float32("nan")), HIGH, opset=13),
    ),
    "pad of zeros": (
        PAD,
        model(helper.make_node("Pad", ["x", "pads"], ["y"]), number("pads", [0, 0, 1, 2, 0, 0, 3, 0]), opset=13),
    ),
    "pad of a number": (
        PAD,
        model(
            helper.make_node("Pad", ["x", "pads", "value"], ["y"]),
            number("pads", [0, 0, 1, 2, 0, 0, 0, 1]),
            number("value", np.float32(2.5)),
            opset=13,
        ),
    ),
    "pad of old": (PAD, model(helper.make_node("Pad", ["x"], ["y"], pads=[0, 0, 1, 1, 0, 0, 1, 1]), opset=2)),
    "pad of edges": (
        (),
        model(
            helper.make_node("Pad", ["x", "pads"], ["y"], mode="edge"),
            number("pads", [0, 0, 1, 1, 0, 0, 1, 1]),
            opset=13,
        ),
    ),
}


def operators(module: Any) -> list[str]:
    """Return the clips and pads of the graph in order; functions of loops do not count."""
    calls = (binding.value for block in module["main"].body.blocks for binding in block.bindings)
    names = [str(call.op.name) for call in calls if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op)]
    return [name for name in names if name in (*CLIP, *PAD)]


def run(module: Any, value: Any) -> Any:
    with TARGET:
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    machine = relax.VirtualMachine(library, tvm.cpu())
    return machine["main"](tvm.runtime.tensor(value)).numpy()


def print_operators(folder: Path) -> None:
    value = np.random.default_rng(0).normal(0, 4, SHAPE).astype("float32")
    for case, (expected, network) in CASES.items():
        path = folder / "case.onnx"
        onnx.save(network, str(path))
        module = read(ModelSource(path=path, format="onnx", inputs={}))
        reference = ReferenceEvaluator(network).run(None, {"x": value})[0]
        if case == "clip of no bound":  # the reference returns NaN; ONNX Runtime ignores the bound
            reference = np.minimum(value, 6)
        same = bool(np.allclose(run(module, value), reference))
        print(json.dumps({"case": case, "operators": operators(module) == list(expected), "same": same}))


def print_input_names(folder: Path) -> None:
    """Print the inputs of a network; a name with a dot must not change."""
    node = helper.make_node("Relu", ["input.1"], ["y"])
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("input.1", "y")]
    graph = helper.make_graph([node], "case", tensors[:1], tensors[1:])
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = folder / "named.onnx"
    onnx.save(network, str(path))
    kind = TensorType(tuple(SHAPE), "float32")
    bridge = RelaxBridge("llvm")
    module = bridge.load(ModelSource(path=path, format="onnx", inputs={"input.1": kind}))
    print(json.dumps({"case": "named", "inputs": list(bridge.inputs(module))}))


def print_external_weights(folder: Path) -> None:
    """Write a module with external weights, read it back, and print if it is the same state."""
    bridge = RelaxBridge("llvm")
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((1, 64), "float32"))
    weight = relax.const(np.random.default_rng(0).normal(size=(64, 64)).astype("float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            twice = builder.emit(relax.op.matmul(builder.emit(relax.op.matmul(data, weight)), weight))
            result = builder.emit_output(relax.op.add(twice, relax.const(1.0)))
        builder.emit_func_output(result)
    module = builder.get()
    path = folder / "network.json"
    bridge.save_with_external_weights(module, path)
    again = ir_file.read(ModelSource(path=path, format="ir", inputs={}, parameters=path.with_suffix(".params")))
    legal = PassSpec.of("LegalizeOps")
    states = [
        bridge.identity(bridge.apply(version, legal, factory="tvm.relax.transform:LegalizeOps"))
        for version in (module, again)
    ]
    small = path.stat().st_size < 64 * 64 * 4
    print(json.dumps({"case": "external weights", "equal": bool(states[0] == states[1]), "large ones only": small}))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        print_operators(Path(name))
        print_input_names(Path(name))
        print_external_weights(Path(name))
