"""Builds a network whose weights have 16 bits, in all forms in which files have them; prints one JSON line per type.

A script for an interpreter with TVM's Relax: ``test_half_weights.py`` runs it with a file of passes, and reads the
lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm_ffi
from onnx import NodeProto, TensorProto, helper, numpy_helper

from passsearch.core import BuildOptions, PassSpec
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.standalone.relax.deployment import network_file, separate_weights

RANDOM = np.random.default_rng(0)
ROWS = 4
LEAST = 1 << 14
SHAPES = {
    "table": (256, 128),
    "transposed": (192, 128),
    "reshaped": (4, 48, 128),
    "halved": (128, 256),
    "shared": (128, 128),
    "left": (160, 128),
    "kernel": (256, 160, 1),
    "single": (256, 128),
}
SIZES = {"matrix": (192, 128), "parts": (128, 128), "image": (1, 160, ROWS), "rows": (256, ROWS)}


def nodes() -> list[NodeProto]:
    """Return the nodes; each line reads a weight in another way."""
    steps = [
        ("Gather", "table ids", "a", {}),
        ("Transpose", "transposed", "t", {"perm": [1, 0]}),
        ("MatMul", "a t", "b", {}),
        ("Reshape", "reshaped matrix", "r", {}),
        ("MatMul", "b r", "c", {}),
        ("Split", "halved parts", "left_half right_half", {"axis": 1}),
        ("MatMul", "c left_half", "d", {}),
        ("MatMul", "c right_half", "e", {}),
        ("Mul", "d e", "f", {}),
        ("MatMul", "f shared", "g", {}),
        ("Relu", "g", "h", {}),
        ("MatMul", "h shared", "i", {}),
        ("Transpose", "i", "j", {"perm": [1, 0]}),
        ("MatMul", "left j", "k", {}),
        ("Reshape", "k image", "l", {}),
        ("Conv", "l kernel", "m", {}),
        ("Reshape", "m rows", "n", {}),
        ("Transpose", "n", "o", {"perm": [1, 0]}),
        ("Cast", "o", "p", {"to": TensorProto.FLOAT}),
        ("Cast", "single", "s", {"to": TensorProto.FLOAT}),
        ("MatMul", "p s", "y", {}),
    ]
    return [helper.make_node(kind, read.split(), made.split(), **rest) for kind, read, made, rest in steps]


def expected(weights: dict[str, Any], ids: Any) -> Any:
    """Return the output in float64."""
    w = {name: value.astype("float64") for name, value in weights.items()}
    c = w["table"][ids] @ w["transposed"].T @ w["reshaped"].reshape(192, 128)
    f = (c @ w["halved"][:, :128]) * (c @ w["halved"][:, 128:])
    i = np.maximum(f @ w["shared"], 0) @ w["shared"]
    return (w["kernel"][:, :, 0] @ (w["left"] @ i.T)).T @ w["single"]


def save(path: Path, kind: int) -> dict[str, Any]:
    """Write the network, which has tokens as its input and float32 as its output, and return its weights."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    weights = {
        name: (RANDOM.standard_normal(shape) / np.sqrt(128)).astype("float32").astype(dtype)
        for name, shape in SHAPES.items()
    }
    constants = [helper.make_tensor(name, kind, each.shape, each.tobytes(), raw=True) for name, each in weights.items()]
    constants += [numpy_helper.from_array(np.array(sizes, "int64"), name) for name, sizes in SIZES.items()]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, (ROWS,))
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (ROWS, 128))
    graph = helper.make_graph(nodes(), "halves", [ids], [output], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return weights


def case(kind: int, passes: list[tuple[PassSpec, str]], folder: Path) -> dict[str, Any]:
    """Return the types of the weights' files, their bytes for each number, those of the saved network's file, and the
    deviation of the output.
    """
    weights, bridge = save(folder / "network.onnx", kind), RelaxBridge("llvm -mcpu=x86-64-v3")
    module = bridge.load(ModelSource(folder / "network.onnx", "onnx", {}))
    bridge.save(module, folder / "network.json")
    saved = bridge.load(ModelSource(folder / "network.json", "ir", {}))
    is_saved = bool(tvm_ffi.structural_equal(module, saved))
    for step, factory in passes:
        module = bridge.apply(module, step, factory=factory)
    built = bridge.build(module, BuildOptions(), folder / "built")
    ids = np.array([3, 255, 0, 17])
    (output,) = bridge.open(built, "cpu").run({"ids": ids})
    right = expected(weights, ids)
    files = [np.load(path) for path in (folder / "built" / separate_weights.FOLDER).glob("*.npy")]
    count = sum(each.size for each in weights.values())
    large = [each for each in files if each.size >= LEAST]
    return {
        "types": sorted({str(each.dtype) for each in large}),
        "bytes": sum(each.nbytes for each in large) / count,
        "saved": (folder / "network.json").stat().st_size / count if is_saved else None,
        "deviation": float(np.abs(output - right).max() / np.abs(right).max()),
    }


if __name__ == "__main__":
    # Else a test needs 256 MB.
    separate_weights.LEAST_BYTES = separate_weights.LARGE_BYTES = 1
    network_file.LARGE_BYTES = 1 << 17
    passes = [(PassSpec.of(name, **arguments), factory) for name, arguments, factory in json.loads(sys.argv[1])]
    for name, kind in (("float16", TensorProto.FLOAT16), ("bfloat16", TensorProto.BFLOAT16)):
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps({"case": name, **case(kind, passes, Path(folder))}), flush=True)
