"""Quantised networks of one operator for ``test_integers.py``, with the outputs of ONNX Runtime as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

STEP = 0.05
"""Scale of all outputs."""

NARROW = 63
"""Largest weight in operators on integers, with which ONNX Runtime's sums of 16 bits do not saturate on AVX2."""

TYPES = {"float32": TensorProto.FLOAT, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}


@dataclass
class Network:
    """A network that is written node by node; names of tensors are returned by what makes them."""

    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: list[tuple[str, str, float]] = field(default_factory=list)
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def input(self, *shape: int, seed: int = 0) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (np.random.default_rng(seed).standard_normal(shape) * 2).astype("float32")
        return name

    def constant(self, values: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def quantized(self, value: str, scale: float = STEP, zero: int = 0, dtype: str = "uint8") -> tuple[str, str, str]:
        """Return integers, scale and zero point."""
        constants = self.constant(np.float32(scale)), self.constant(np.array(zero, dtype))
        return self.node("QuantizeLinear", value, *constants), *constants

    def floats(self, quantized: Sequence[str], **attributes: Any) -> str:
        return str(self.node("DequantizeLinear", *quantized, **attributes))

    def rounded(self, value: str, scale: float = STEP, zero: int = 0, dtype: str = "uint8") -> str:
        """Return floats that are multiples of a scale."""
        return self.floats(self.quantized(value, scale, zero, dtype))

    def weights(
        self, *shape: int, axis: int | None = 0, zero: int = 0, dtype: str = "int8", seed: int = 1, largest: int = 127
    ) -> tuple[str, str, str]:
        """Return constant integers with a scale for each index of an axis, or one."""
        random = np.random.default_rng(seed)
        low, high = (-largest, largest + 1) if dtype == "int8" else (0, 256)
        count = 1 if axis is None else shape[axis]
        scales = (random.random(count) * 0.004 + 0.001).astype("float32")
        zeros = np.full(count, zero, dtype)
        if axis is None:
            scales, zeros = scales.reshape(()), zeros.reshape(())
        return tuple(map(self.constant, (random.integers(low, high, shape).astype(dtype), scales, zeros)))  # type: ignore[return-value]

    def output(self, name: str, dtype: str = "float32", step: float = STEP) -> None:
        self.outputs.append((name, dtype, step))

    def save(self, path: Path) -> None:
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(name, TYPES[dtype], None) for name, dtype, _ in self.outputs]
        graph = helper.make_graph(self.nodes, path.stem, inputs, outputs, self.constants)
        versions = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=8)
        onnx.save(model, str(path))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        results = session.run(None, self.inputs)
        arrays = {f"in {name}": each for name, each in self.inputs.items()}
        arrays |= {f"out {place}": each for place, each in enumerate(results)}
        np.savez(path.with_suffix(".npz"), steps=np.array([step for *_, step in self.outputs]), **arrays)


def convolution(
    shape: Sequence[int],
    weights: Sequence[int],
    *,
    zero: int = 0,
    dtype: str = "uint8",
    output: tuple[float, int, str] = (STEP, 0, "uint8"),
    weight_options: Mapping[str, Any] | None = None,
    bias: bool = True,
    relu: bool = False,
    **attributes: Any,
) -> Network:
    """Return a convolution between integers."""
    network = Network()
    data = network.rounded(network.input(*shape), 0.03, zero, dtype)
    kernel = network.weights(*weights, **(weight_options or {}))
    axis = {"axis": 0} if (weight_options or {}).get("axis", 0) is not None else {}
    operands = [data, network.floats(kernel, **axis)]
    if bias:
        count = weights[0]
        values = np.random.default_rng(2).integers(-2000, 2000, count).astype("int32")
        scales, zeros = np.full(count, 1e-4, "float32"), np.zeros(count, "int32")
        operands.append(network.floats([*map(network.constant, (values, scales, zeros))], axis=0))
    result = network.node("Conv", *operands, **attributes)
    result = network.node("Relu", result) if relu else result
    scale, out_zero, out_type = output
    network.output(network.rounded(result, scale, out_zero, out_type))
    return network


def product(rows: int, steps: int, columns: int, *, zero: int = 3, axis: int | None = 1) -> Network:
    """Return a product with constant weights between integers."""
    network = Network()
    data = network.rounded(network.input(2, rows, steps), 0.03, zero)
    weights = network.floats(network.weights(steps, columns, axis=axis), **({"axis": 1} if axis else {}))
    network.output(network.rounded(network.node("MatMul", data, weights), STEP, -7, "int8"))
    return network


def attention(length: int, width: int) -> Network:
    """Return a product of two computed tensors."""
    network = Network()
    left = network.rounded(network.input(1, 2, length, width), 0.03, 120)
    right = network.rounded(network.input(1, 2, length, width, seed=4), 0.03, -5, "int8")
    turned = network.node("Transpose", right, perm=[0, 1, 3, 2])
    turned = network.rounded(turned, 0.03, -5, "int8")
    network.output(network.rounded(network.node("MatMul", left, turned), 0.3, 100), step=0.3)
    return network


def unary(kind: str, *shape: int, zero: int = 10, scale: float = 0.03, **attributes: Any) -> Network:
    """Return an operator of one tensor between integers."""
    network = Network()
    data = network.rounded(network.input(*shape), scale, zero)
    network.output(network.rounded(network.node(kind, data, **attributes), scale, zero), step=scale)
    return network


def binary(kind: str, shape: Sequence[int], other: Sequence[int], **attributes: Any) -> Network:
    """Return an operator of two tensors of other scales between integers."""
    network = Network()
    left = network.rounded(network.input(*shape), 0.03, 10)
    right = network.rounded(network.input(*other, seed=5), 0.07, -20, "int8")
    # No simple multiple of the others: a value between two steps is rounded one way or the other.
    network.output(network.rounded(network.node(kind, left, right, **attributes), 0.0613, 100), step=0.0613)
    return network


def residual() -> Network:
    """Return two convolutions, whose sum is rounded twice."""
    network = Network()
    data = network.rounded(network.input(1, 16, 9, 9), 0.03, 117)
    once = network.node("Conv", data, network.floats(network.weights(16, 16, 3, 3), axis=0), pads=[1, 1, 1, 1])
    once = network.rounded(once, 0.1, 0)
    twice = network.node("Conv", once, network.floats(network.weights(16, 16, 1, 1, seed=7), axis=0))
    total = network.node("Relu", network.node("Add", network.rounded(twice, 0.1, 128), data))
    total = network.rounded(total, STEP, 0)
    pooled = network.rounded(network.node("GlobalAveragePool", total), 0.02, 0)
    network.output(total)
    network.output(pooled, step=0.02)
    return network


def unquantized_operand() -> Network:
    """Return a product of integers with floats, which stays in float32."""
    network = Network()
    data = network.rounded(network.input(4, 32), 0.03, 3)
    weights = network.constant(np.random.default_rng(0).standard_normal((32, 16)).astype("float32"))
    network.output(network.rounded(network.node("MatMul", data, weights), 0.2, 100), step=0.2)
    return network


def in_qoperators(kind: str) -> Network:
    """Return an operator on integers."""
    network = Network()
    target = network.constant(np.float32(STEP)), network.constant(np.uint8(9))
    if kind in ("QLinearConv", "ConvInteger"):
        data = network.quantized(network.input(1, 12, 9, 11), 0.03, 100)
        weights = network.weights(20, 12, 3, 3, axis=0 if kind == "QLinearConv" else None, largest=NARROW)
        bias = network.constant(np.random.default_rng(2).integers(-2000, 2000, 20).astype("int32"))
        if kind == "QLinearConv":
            result = network.node(kind, *data, *weights, *target, bias, pads=[1, 0, 2, 1], strides=[2, 1])
            network.output(result, "uint8", 1)
        else:
            result = network.node(kind, data[0], weights[0], data[2], weights[2], pads=[1, 0, 2, 1])
            network.output(result, "int32", 1)
        return network
    if kind in ("QLinearMatMul", "MatMulInteger"):
        data = network.quantized(network.input(5, 33), 0.03, 100)
        weights = network.weights(33, 24, axis=None, largest=NARROW)
        if kind == "QLinearMatMul":
            network.output(network.node(kind, *data, *weights, *target), "uint8", 1)
        else:
            network.output(network.node(kind, data[0], weights[0], data[2], weights[2]), "int32", 1)
        return network
    if kind == "DynamicQuantizeLinear":
        data, scale, zero = network.node(kind, network.input(6, 40), outputs=3)
        weights = network.weights(40, 17, axis=None, largest=NARROW)
        sums = network.node("MatMulInteger", data, weights[0], zero, weights[2])
        network.output(network.node("Mul", network.node("Cast", sums, to=TensorProto.FLOAT), scale))
        return network
    if kind in ("QAttention", "Attention"):
        # Nine keys: vectors of the scores overlap, which the mask must not be added to twice.
        data, random = network.input(2, 9, 32), np.random.default_rng(2)
        mask = network.constant(np.array([[1] * 9, [1] * 6 + [0] * 3], "int32"))
        bias = network.constant(random.standard_normal(48).astype("float32"))
        if kind == "Attention":
            inputs = data, network.constant(random.standard_normal((32, 48)).astype("float32")), bias, mask
        else:
            data, scale, zero = network.quantized(data, 0.03, 100)
            weights, scales, zeros = network.weights(32, 48, axis=1, largest=NARROW)
            inputs = data, weights, bias, scale, scales, mask, zero, zeros
        network.output(network.node(kind, *inputs, num_heads=4, domain="com.microsoft"))
        return network
    left = network.quantized(network.input(1, 8, 7, 5), 0.03, 100)
    if kind == "QLinearGlobalAveragePool":
        network.output(network.node(kind, *left, *target, domain="com.microsoft"), "uint8", 1)
        return network
    if kind == "QGemm":
        data = network.quantized(network.input(5, 33), 0.03, 100)
        bias = network.constant(np.random.default_rng(2).integers(-2000, 2000, 24).astype("int32"))
        weights = network.weights(24, 33, axis=0, largest=NARROW)
        result = network.node(kind, *data, *weights, bias, *target, transB=1, domain="com.microsoft")
        network.output(result, "uint8", 1)
        return network
    right = network.quantized(network.input(1, 8, 7, 5, seed=3), 0.04, 120)
    network.output(network.node(kind, *left, *right, *target, domain="com.microsoft"), "uint8", 1)
    return network


def networks() -> Iterator[tuple[str, Network]]:
    """Yield the networks by name."""
    yield "conv", convolution((1, 16, 12, 12), (32, 16, 3, 3), pads=[1, 1, 1, 1])
    yield "conv odd", convolution((2, 7, 9, 11), (13, 7, 3, 2), zero=131, pads=[2, 0, 1, 1], strides=[2, 1])
    yield "conv zero", convolution((1, 8, 9, 9), (16, 8, 3, 3), zero=-77, dtype="int8", pads=[1, 1, 1, 1], bias=False)
    yield "conv one scale", convolution((1, 8, 9, 9), (24, 8, 1, 1), zero=5, weight_options={"axis": None}, relu=True)
    unsigned = {"axis": None, "zero": 119, "dtype": "uint8"}
    yield "conv unsigned weights", convolution((1, 8, 9, 9), (16, 8, 3, 3), zero=5, weight_options=unsigned)
    narrow = {"largest": NARROW}
    yield "conv narrow", convolution((1, 8, 9, 9), (16, 8, 3, 3), zero=-77, dtype="int8", weight_options=narrow)
    yield "conv dilated", convolution((1, 8, 12, 12), (16, 8, 3, 3), zero=9, dilations=[2, 2], pads=[2, 2, 2, 2])
    yield (
        "conv signed",
        convolution((1, 3, 19, 17), (16, 3, 7, 7), output=(0.1, 14, "int8"), pads=[3] * 4, strides=[2] * 2),
    )
    yield "conv groups", convolution((1, 16, 9, 9), (32, 8, 3, 3), zero=100, group=2, pads=[1, 1, 1, 1])
    yield "conv odd groups", convolution((1, 15, 9, 9), (30, 5, 3, 3), zero=0, group=3, pads=[1, 1, 1, 1])
    yield "depthwise", convolution((1, 32, 13, 13), (32, 1, 3, 3), zero=90, group=32, pads=[1, 1, 1, 1])
    yield (
        "depthwise strided",
        convolution((1, 24, 13, 14), (24, 1, 5, 5), zero=0, group=24, pads=[2] * 4, strides=[2] * 2),
    )
    yield "product", product(5, 64, 48)
    yield "product odd", product(7, 33, 19, zero=250, axis=None)
    yield "product long", product(1, 515, 40, zero=255)
    yield "attention", attention(17, 32)
    yield "attention odd", attention(16, 15)
    yield "residual", residual()
    yield "max pool", unary("MaxPool", 1, 8, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "average pool", unary("AveragePool", 1, 8, 9, 9, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "mean", unary("GlobalAveragePool", 1, 19, 7, 9)
    yield "transpose", unary("Transpose", 1, 8, 9, 7, perm=[0, 2, 3, 1])
    yield "flatten", unary("Flatten", 1, 8, 9, 7)
    yield "relu", unary("Relu", 1, 8, 9, 7)
    yield "sigmoid", unary("Sigmoid", 1, 8, 9, 7)
    yield "softmax", unary("Softmax", 1, 8, 9, 17, zero=0, scale=0.01)
    yield "add", binary("Add", (1, 8, 9, 7), (1, 8, 9, 7))
    yield "add rows", binary("Add", (1, 8, 9, 7), (1, 8, 1, 1))
    yield "mul", binary("Mul", (1, 8, 9, 7), (1, 8, 9, 7))
    yield "concat", binary("Concat", (1, 8, 9, 7), (1, 5, 9, 7), axis=1)
    yield "float operand", unquantized_operand()
    for kind in ("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul", "QLinearGlobalAveragePool", "QGemm"):
        yield kind, in_qoperators(kind)
    for kind in ("ConvInteger", "MatMulInteger", "DynamicQuantizeLinear", "Attention", "QAttention"):
        yield kind, in_qoperators(kind)


def write(folder: Path, every: int) -> list[str]:
    """Write every n-th network with its inputs and outputs; return their names."""
    names = []
    for name, network in islice(networks(), 0, None, every):
        network.save(folder / f"{name}.onnx")
        names.append(name)
        if name in FAULTY:
            _write_faults(folder, name)
    return names


FAULTY = ("conv odd", "depthwise", "product", "residual")
"""Networks that are also written with a fault, beside the outputs without it."""


def _write_faults(folder: Path, name: str) -> None:
    """Write a network with the zero point of its data off by one, and with a scale that is 2 % too large."""
    for fault in ("zero", "scale"):
        model = onnx.load(str(folder / f"{name}.onnx"))
        first = next(node for node in model.graph.node if node.op_type == "DequantizeLinear")
        wanted = first.input[2 if fault == "zero" else 1]
        # Only the reader of the integers has the fault, as if a compiler had made it.
        constant = next(each for each in model.graph.initializer if each.name == wanted)
        values = numpy_helper.to_array(constant)
        wrong = values + values.dtype.type(1) if fault == "zero" else (values * 1.02).astype(values.dtype)
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(wrong), "fault"))
        first.input[2 if fault == "zero" else 1] = "fault"
        path = folder / f"fault of {fault}, {name}.onnx"
        onnx.save(model, str(path))
        path.with_suffix(".npz").write_bytes((folder / f"{name}.npz").read_bytes())
