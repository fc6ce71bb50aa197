"""Networks that compile in a fraction of a second, for benchmarks that need many builds and time nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import ArrayLike
from onnx import NodeProto, TensorProto, helper, numpy_helper

IMAGE, TEXT = [1, 4, 8, 8], [1, 4, 8]
node = helper.make_node


def write_network(name: str, folder: Path) -> Path:
    """Write one of ``NETWORKS`` as an ONNX file, and return its path."""
    nodes, shape, output = NETWORKS[name]()
    names = sorted({value for each in nodes for value in each.input if value.startswith("w_")})
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)],
        [_constant(value) for value in names],
    )
    file = folder / f"{name}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(file))
    return file


def _constant(name: str) -> TensorProto:
    """Return the weight that a name such as ``w_a_8x4x3x3`` describes; the first letter tells weights of one shape."""
    _, kind, sizes = name.split("_")
    shape = tuple(int(size) for size in sizes.split("x"))
    if kind == "shape":
        return numpy_helper.from_array(np.asarray(shape, "int64"), name)
    rng = np.random.default_rng(sum(name.encode()))
    # Variances are positive.
    values: ArrayLike = rng.uniform(0.5, 2, shape) if kind == "var" else rng.normal(0, 0.3, shape)
    return numpy_helper.from_array(np.asarray(values, "float32"), name)


def _normalisation() -> tuple[list[NodeProto], list[int], list[int]]:
    nodes = [
        node("BatchNormalization", ["x", "w_a_4", "w_b_4", "w_c_4", "w_var_4"], ["n"]),
        node("Relu", ["n"], ["y"]),
    ]
    return nodes, IMAGE, IMAGE


def _residual() -> tuple[list[NodeProto], list[int], list[int]]:
    nodes = [
        node("Conv", ["x", "w_a_4x4x3x3"], ["c"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c", "w_a_4", "w_b_4", "w_c_4", "w_var_4"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Add", ["r", "x"], ["s"]),
        node("GlobalAveragePool", ["s"], ["p"]),
        node("Flatten", ["p"], ["f"]),
        node("Gemm", ["f", "w_a_5x4", "w_a_5"], ["y"], transB=1),
    ]
    return nodes, IMAGE, [1, 5]


def _separable() -> tuple[list[NodeProto], list[int], list[int]]:
    nodes = [
        node("Conv", ["x", "w_a_4x1x3x3"], ["d"], pads=[1, 1, 1, 1], group=4),
        node("Clip", ["d", "", ""], ["l"]),
        node("Conv", ["l", "w_a_8x4x1x1", "w_a_8"], ["a"]),
        node("Conv", ["l", "w_b_8x4x1x1", "w_b_8"], ["b"]),
        node("Concat", ["a", "b"], ["m"], axis=1),
        node("Sigmoid", ["m"], ["y"]),
    ]
    return nodes, IMAGE, [1, 16, 8, 8]


def _attention() -> tuple[list[NodeProto], list[int], list[int]]:
    nodes = [
        *(node("MatMul", ["x", f"w_{letter}_8x8"], [letter]) for letter in "qkv"),
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["q", "t"], ["scores"]),
        node("Softmax", ["scores"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["context"]),
        node("Add", ["context", "x"], ["s"]),
        node("Erf", ["s"], ["e"]),
        node("Reshape", ["e", "w_shape_1x32"], ["y"]),
    ]
    return nodes, TEXT, [1, 32]


NETWORKS: dict[str, Callable[[], tuple[list[NodeProto], list[int], list[int]]]] = {
    "normalisation": _normalisation,
    "residual": _residual,
    "separable": _separable,
    "attention": _attention,
}
"""Nodes, shape of the input and shape of the output, by name."""
