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


def write_network(name: str, folder: Path) -> Path:
    """Write one of ``NETWORKS`` as an ONNX file, and return its path."""
    nodes, shape, output = NETWORKS[name]
    weights = {value: _weight(value) for each in nodes for value in each.input if value.startswith("w_")}
    model = onnx_model(nodes, {"x": ("float32", shape)}, {"y": output}, weights, opset=13)
    file = folder / f"{name}.onnx"
    onnx.save(model, str(file))
    return file


def _weight(name: str) -> Any:
    """Return the weight that a name such as ``w_a_8x4x3x3`` describes; the first letter tells weights of one shape."""
    _, kind, sizes = name.split("_")
    shape = tuple(int(size) for size in sizes.split("x"))
    if kind == "shape":
        return np.asarray(shape, "int64")
    rng = np.random.default_rng(sum(name.encode()))
    # Variances are positive.
    return (rng.uniform(0.5, 2, shape) if kind == "var" else rng.normal(0, 0.3, shape)).astype("float32")
