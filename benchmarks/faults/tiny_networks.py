"""Networks that compile in a fraction of a second, for benchmarks that need many builds and time nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from benchmarks.common import onnx_model

node = helper.make_node
NORM = ["w_a_4", "w_b_4", "w_c_4", "w_var_4"]
IMAGE, TEXT = [1, 4, 8, 8], [1, 4, 8]

NETWORKS: dict[str, tuple[list[onnx.NodeProto], list[int], list[int]]] = {
    "normalisation": ([node("BatchNormalization", ["x", *NORM], ["n"]), node("Relu", ["n"], ["y"])], IMAGE, IMAGE),
    "residual": (
        [
            node("Conv", ["x", "w_a_4x4x3x3"], ["c"], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", *NORM], ["n"]),
            node("Relu", ["n"], ["r"]),
            node("Add", ["r", "x"], ["s"]),
            node("GlobalAveragePool", ["s"], ["p"]),
            node("Flatten", ["p"], ["f"]),
            node("Gemm", ["f", "w_a_5x4", "w_a_5"], ["y"], transB=1),
        ],
        IMAGE,
        [1, 5],
    ),
    "separable": (
        [
            node("Conv", ["x", "w_a_4x1x3x3"], ["d"], pads=[1, 1, 1, 1], group=4),
            node("Clip", ["d", "", ""], ["l"]),
            node("Conv", ["l", "w_a_8x4x1x1", "w_a_8"], ["a"]),
            node("Conv", ["l", "w_b_8x4x1x1", "w_b_8"], ["b"]),
            node("Concat", ["a", "b"], ["m"], axis=1),
            node("Sigmoid", ["m"], ["y"]),
        ],
        IMAGE,
        [1, 16, 8, 8],
    ),
    "attention": (
        [
            *(node("MatMul", ["x", f"w_{letter}_8x8"], [letter]) for letter in "qkv"),
            node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
            node("MatMul", ["q", "t"], ["scores"]),
            node("Softmax", ["scores"], ["p"], axis=-1),
            node("MatMul", ["p", "v"], ["context"]),
            node("Add", ["context", "x"], ["s"]),
            node("Erf", ["s"], ["e"]),
            node("Reshape", ["e", "w_shape_1x32"], ["y"]),
        ],
        TEXT,
        [1, 32],
    ),
}
"""Nodes, shape of the input and shape of the output, by name."""

ROWS = [1, 8]

FEATURES: dict[str, tuple[list[onnx.NodeProto], list[int], list[int]]] = {
    "siblings": (
        [
            node("Relu", ["x"], ["r"]),
            node("Relu", ["x"], ["s"]),
            node("Gemm", ["r", "w_a_16x8"], ["a"], transB=1),
            node("Gemm", ["s", "w_b_16x8"], ["b"], transB=1),
            node("Mul", ["a", "b"], ["y"]),
        ],
        ROWS,
        [1, 16],
    ),
    "chain": (
        [
            node("MatMul", ["x", "w_a_8x32"], ["a"]),
            node("MatMul", ["a", "w_b_32x4"], ["b"]),
            node("Exp", ["b"], ["e"]),
            node("Tanh", ["e"], ["y"]),
        ],
        ROWS,
        [1, 4],
    ),
    "two_readers": (
        [
            node("Relu", ["x"], ["r"]),
            node("Exp", ["r"], ["e"]),
            node("Add", ["r", "w_a_8"], ["s"]),
            node("Mul", ["e", "s"], ["y"]),
        ],
        ROWS,
        ROWS,
    ),
    "broadcast": (
        [node("Exp", ["x"], ["e"]), node("Add", ["e", "w_a_256x256"], ["y"])],
        [256, 1],
        [256, 256],
    ),
    "norm": (
        [node("LayerNormalization", ["x", "w_a_8", "w_b_8"], ["n"]), node("Softmax", ["n"], ["y"], axis=-1)],
        TEXT,
        TEXT,
    ),
    "transposed": (
        [
            node("ConvTranspose", ["x", "w_a_4x4x4x4"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
            node("BatchNormalization", ["c", *NORM], ["n"]),
            node("Transpose", ["n"], ["t"], perm=[0, 2, 3, 1]),
            node("Reshape", ["t", "w_shape_1x256x4"], ["y"]),
        ],
        IMAGE,
        [1, 256, 4],
    ),
    "quantised": (
        [
            node("QuantizeLinear", ["x", "w_scale_0", "w_zero_0"], ["q"]),
            node("DequantizeLinear", ["q", "w_scale_0", "w_zero_0"], ["d"]),
            node("DequantizeLinear", ["w_int8_8x4x3x3", "w_scale_0", "w_zero_0"], ["k"]),
            node("Conv", ["d", "k"], ["c"], pads=[1, 1, 1, 1]),
            node("Relu", ["c"], ["r"]),
            node("QuantizeLinear", ["r", "w_scale_0", "w_zero_0"], ["p"]),
            node("DequantizeLinear", ["p", "w_scale_0", "w_zero_0"], ["y"]),
        ],
        IMAGE,
        [1, 8, 8, 8],
    ),
}
"""Networks of a few nodes for passes that change nothing in ``NETWORKS``."""


def write_network(name: str, folder: Path) -> Path:
    """Write one of ``NETWORKS`` or ``FEATURES`` as an ONNX file, and return its path."""
    nodes, shape, output = NETWORKS.get(name) or FEATURES[name]
    weights = {value: _weight(value) for each in nodes for value in each.input if value.startswith("w_")}
    model = onnx_model(nodes, {"x": ("float32", shape)}, {"y": output}, weights, opset=13 if name in NETWORKS else 17)
    file = folder / f"{name}.onnx"
    onnx.save(model, str(file))
    return file


def _weight(name: str) -> Any:
    """Return the weight that a name such as ``w_a_8x4x3x3`` describes; the first letter tells weights of one shape."""
    _, kind, sizes = name.split("_")
    shape = tuple(int(size) for size in sizes.split("x"))
    if kind == "shape":
        return np.asarray(shape, "int64")
    if kind in ("scale", "zero"):
        return np.asarray(0.05, "float32") if kind == "scale" else np.asarray(0, "int8")
    rng = np.random.default_rng(sum(name.encode()))
    if kind == "int8":
        return rng.integers(-127, 128, shape, "int8")
    # Variances are positive.
    return (rng.uniform(0.5, 2, shape) if kind == "var" else rng.normal(0, 0.3, shape)).astype("float32")
