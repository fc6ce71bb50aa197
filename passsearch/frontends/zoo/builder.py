"""A small builder of ONNX graphs with random weights.

Every method appends nodes and returns the resulting tensor with its shape, so that a network reads as a chain of calls.
Weights are scaled after He et al., "Delving Deep into Rectifiers" (2015), so that activations neither vanish nor
explode with depth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["HEAD_GAIN", "LINEAR_GAIN", "RELU_GAIN", "GraphBuilder", "Tensor"]

OPSET = 13
IR_VERSION = 8

# Variance gain of the weights: a ReLU sets half of its inputs to zero, and a gain of 2 compensates for that.
RELU_GAIN = 2.0
LINEAR_GAIN = 1.0
# The features of a random network are averages with little spread; with this gain the outputs still spread around 1.
HEAD_GAIN = 16.0
_CENTRED_FAN_IN = 16


@dataclass(frozen=True)
class Tensor:
    """A value in the graph: its name and static shape."""

    name: str
    shape: tuple[int, ...]


class GraphBuilder:
    """A builder of one ONNX graph, node by node.

    Args:
        name: Name of the graph.
        seed: Seed of the weights.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        opset = helper.make_opsetid("", OPSET)
        # Filled in place: copying a finished graph would hold every weight twice.
        self._model = helper.make_model(
            helper.make_graph([], name, [], []),
            opset_imports=[opset],
            ir_version=IR_VERSION,
            producer_name="passsearch",
        )
        self._random = np.random.default_rng(seed)
        self._counts: Counter[str] = Counter()
        self._scalars: dict[float, Tensor] = {}

    def finish(self) -> onnx.ModelProto:
        """Return the finished network."""
        return self._model

    def input(self, name: str, shape: Sequence[int], *, integer: bool = False) -> Tensor:
        """Declare an input, float32 or int64."""
        kind = TensorProto.INT64 if integer else TensorProto.FLOAT
        self._model.graph.input.append(helper.make_tensor_value_info(name, kind, list(shape)))
        return Tensor(name, tuple(shape))

    def output(self, x: Tensor, name: str) -> None:
        """Declare a float32 output, renaming the tensor throughout the graph."""
        for node in self._model.graph.node:
            node.input[:] = [name if value == x.name else value for value in node.input]
            node.output[:] = [name if value == x.name else value for value in node.output]
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(x.shape))
        self._model.graph.output.append(info)

    def node(
        self,
        op: str,
        inputs: Sequence[Tensor],
        *,
        shape: Sequence[int],
        **attributes: float | str | Sequence[int],
    ) -> Tensor:
        """Append one node with one output of the given shape."""
        name = self._fresh(op.lower())
        names = [tensor.name for tensor in inputs]
        node = helper.make_node(op, names, [name], name=name)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self._model.graph.node.append(node)
        return Tensor(name, tuple(shape))

    def initializer(self, name: str, values: npt.NDArray[np.generic]) -> Tensor:
        """Store an array in the graph under a fresh name."""
        tensor = Tensor(self._fresh(name), values.shape)
        self._model.graph.initializer.add().CopyFrom(numpy_helper.from_array(values, tensor.name))
        return tensor

    def integers(self, values: Sequence[int]) -> Tensor:
        """Store a vector of int64, such as a shape or axes."""
        return self.initializer("integers", np.asarray(values, dtype=np.int64))

    def scalar(self, value: float) -> Tensor:
        """Store a float32 scalar, once for each value."""
        if value not in self._scalars:
            self._scalars[value] = self.initializer("scalar", np.asarray(value, dtype=np.float32))
        return self._scalars[value]

    def weight(self, name: str, shape: Sequence[int], *, axes: tuple[int, ...], gain: float) -> Tensor:
        """Store the weights of a layer.

        Args:
            name: Name to start from.
            shape: Shape of the weights.
            axes: The axes summed over when the layer is applied.
            gain: Variance of the layer's output over the mean square of its input.
        """
        fan_in = math.prod(shape[axis] for axis in axes)
        values = self._random.standard_normal(tuple(shape), dtype=np.float32) * np.float32(math.sqrt(gain / fan_in))
        # Activations have positive means, and weights that sum to zero do not pass these on. Otherwise all inputs would
        # give nearly the same output after a few dozen random layers. A depthwise filter has too few weights for this.
        if fan_in >= _CENTRED_FAN_IN:
            values -= values.mean(axis=axes, keepdims=True)
        return self.initializer(name, values)

    def normal(self, name: str, shape: Sequence[int], *, mean: float = 0.0, deviation: float) -> Tensor:
        """Store a float32 array drawn from a normal distribution."""
        values = self._random.standard_normal(tuple(shape), dtype=np.float32)
        return self.initializer(name, values * np.float32(deviation) + np.float32(mean))

    def uniform(self, name: str, shape: Sequence[int], *, low: float, high: float) -> Tensor:
        """Store a float32 array drawn from a uniform distribution."""
        values = self._random.random(tuple(shape), dtype=np.float32)
        return self.initializer(name, values * np.float32(high - low) + np.float32(low))

    def conv(
        self,
        x: Tensor,
        channels: int,
        *,
        kernel: int = 1,
        stride: int = 1,
        padding: int | None = None,
        groups: int = 1,
        bias: bool = False,
        gain: float = RELU_GAIN,
    ) -> Tensor:
        """Append a square two-dimensional convolution over NCHW.

        Args:
            x: Input of shape (batch, channels, height, width).
            channels: Number of output channels.
            kernel: Height and width of the kernel.
            stride: Step in both directions.
            padding: Zeros added on each side; by default half the kernel.
            groups: Number of channel groups.
            bias: True to add a bias per output channel.
            gain: Variance of the output over the mean square of the input.
        """
        padding = kernel // 2 if padding is None else padding
        shape = (channels, x.shape[1] // groups, kernel, kernel)
        weights = [self.weight("conv_weight", shape, axes=(1, 2, 3), gain=gain)]
        if bias:
            weights.append(self.normal("conv_bias", (channels,), deviation=0.1))
        return self.node(
            "Conv",
            [x, *weights],
            shape=(x.shape[0], channels, *_window(x, kernel=kernel, stride=stride, padding=padding)),
            dilations=[1, 1],
            group=groups,
            kernel_shape=[kernel, kernel],
            pads=[padding] * 4,
            strides=[stride, stride],
        )

    def conv_transpose(self, x: Tensor, channels: int, *, kernel: int, stride: int, padding: int = 0) -> Tensor:
        """Append a square transposed convolution over NCHW with a bias.

        Args:
            x: Input of shape (batch, channels, height, width).
            channels: Number of output channels.
            kernel: Height and width of the kernel, a multiple of the stride.
            stride: Factor by which height and width grow.
            padding: Outputs that are cut off on each side.
        """
        # An output is a sum over all input channels and one in stride * stride elements of the kernel.
        gain = LINEAR_GAIN * stride * stride
        weight = self.weight("conv_weight", (x.shape[1], channels, kernel, kernel), axes=(0, 2, 3), gain=gain)
        bias = self.normal("conv_bias", (channels,), deviation=0.1)
        size = [(extent - 1) * stride + kernel - 2 * padding for extent in x.shape[2:]]
        return self.node(
            "ConvTranspose",
            [x, weight, bias],
            shape=(x.shape[0], channels, *size),
            dilations=[1, 1],
            group=1,
            kernel_shape=[kernel, kernel],
            pads=[padding] * 4,
            strides=[stride, stride],
        )

    def batch_norm(self, x: Tensor, *, mean_scale: float = 1.0) -> Tensor:
        """Append an inference-time batch normalization whose statistics are near those of its input.

        Args:
            x: Input of shape (batch, channels, ...).
            mean_scale: Mean of the random scale factors. Below 1 for a branch that is added to a shortcut, because sums
                of many branches would grow otherwise.
        """
        channels = (x.shape[1],)
        gamma = self.uniform("norm_scale", channels, low=0.9 * mean_scale, high=1.1 * mean_scale)
        beta = self.normal("norm_bias", channels, deviation=0.1)
        mean = self.normal("norm_mean", channels, deviation=0.1)
        variance = self.uniform("norm_variance", channels, low=0.8, high=1.2)
        inputs = [x, gamma, beta, mean, variance]
        # Momentum has no effect on inference, but below opset 14 onnx.reference mixes the statistics of the batch into
        # the stored ones unless momentum is 1: onnx/reference/ops/op_batch_normalization.py, BatchNormalization_9.
        return self.node("BatchNormalization", inputs, shape=x.shape, epsilon=1e-5, momentum=1.0)

    def relu(self, x: Tensor) -> Tensor:
        """Append a ReLU."""
        return self.node("Relu", [x], shape=x.shape)

    def relu6(self, x: Tensor) -> Tensor:
        """Append a ReLU capped at 6, as a Clip."""
        return self.node("Clip", [x, self.scalar(0.0), self.scalar(6.0)], shape=x.shape)

    def max_pool(self, x: Tensor, *, kernel: int, stride: int, padding: int) -> Tensor:
        """Append a square maximum pooling over NCHW."""
        size = _window(x, kernel=kernel, stride=stride, padding=padding)
        return self.node(
            "MaxPool",
            [x],
            shape=(*x.shape[:2], *size),
            kernel_shape=[kernel, kernel],
            pads=[padding] * 4,
            strides=[stride, stride],
        )

    def global_average_pool(self, x: Tensor) -> Tensor:
        """Append an average over height and width, kept as size 1."""
        return self.node("GlobalAveragePool", [x], shape=(*x.shape[:2], 1, 1))

    def flatten(self, x: Tensor) -> Tensor:
        """Append a flattening of all dimensions after the first."""
        return self.node("Flatten", [x], shape=(x.shape[0], math.prod(x.shape[1:])), axis=1)

    def dense(self, x: Tensor, features: int, *, gain: float = HEAD_GAIN) -> Tensor:
        """Append a fully connected layer over (batch, features), as a Gemm; a classifier by its default gain."""
        weight = self.weight("dense_weight", (features, x.shape[1]), axes=(1,), gain=gain)
        bias = self.normal("dense_bias", (features,), deviation=0.1)
        return self.node("Gemm", [x, weight, bias], shape=(x.shape[0], features), alpha=1.0, beta=1.0, transB=1)

    def linear(self, x: Tensor, features: int, *, gain: float = LINEAR_GAIN) -> Tensor:
        """Append a fully connected layer over the last of any number of dimensions, as MatMul and Add."""
        weight = self.weight("linear_weight", (x.shape[-1], features), axes=(0,), gain=gain)
        bias = self.normal("linear_bias", (features,), deviation=0.1)
        return self.add(bias, self.matmul(x, weight))

    def matmul(self, x: Tensor, y: Tensor) -> Tensor:
        """Append a matrix product over the last two dimensions; `y` has the batch dimensions of `x`, or none."""
        return self.node("MatMul", [x, y], shape=(*x.shape[:-1], y.shape[-1]))

    def add(self, x: Tensor, y: Tensor) -> Tensor:
        """Append a sum with broadcasting."""
        return self._elementwise("Add", (x, y))

    def subtract(self, x: Tensor, y: Tensor) -> Tensor:
        """Append a difference with broadcasting."""
        return self._elementwise("Sub", (x, y))

    def multiply(self, x: Tensor, y: Tensor) -> Tensor:
        """Append a product with broadcasting."""
        return self._elementwise("Mul", (x, y))

    def divide(self, x: Tensor, y: Tensor) -> Tensor:
        """Append a quotient with broadcasting."""
        return self._elementwise("Div", (x, y))

    def softmax(self, x: Tensor) -> Tensor:
        """Append a softmax over the last dimension."""
        return self.node("Softmax", [x], shape=x.shape, axis=-1)

    def sigmoid(self, x: Tensor) -> Tensor:
        """Append a logistic function."""
        return self.node("Sigmoid", [x], shape=x.shape)

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """Append a permutation of the dimensions."""
        return self.node("Transpose", [x], shape=[x.shape[axis] for axis in order], perm=list(order))

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """Append a change to a shape given in full."""
        return self.node("Reshape", [x, self.integers(shape)], shape=shape)

    def concat(self, parts: Sequence[Tensor], *, axis: int) -> Tensor:
        """Append a concatenation along an axis counted from the front."""
        shape = list(parts[0].shape)
        shape[axis] = sum(part.shape[axis] for part in parts)
        return self.node("Concat", parts, shape=shape, axis=axis)

    def split(self, x: Tensor, parts: int) -> list[Tensor]:
        """Append a split of the last dimension into equal parts."""
        shape = (*x.shape[:-1], x.shape[-1] // parts)
        names = [self._fresh("split") for _ in range(parts)]
        lengths = self.integers([shape[-1]] * parts)
        node = helper.make_node("Split", [x.name, lengths.name], names, name=names[0])
        node.attribute.append(helper.make_attribute("axis", -1))
        self._model.graph.node.append(node)
        return [Tensor(name, shape) for name in names]

    def layer_norm(self, x: Tensor, *, epsilon: float = 1e-12) -> Tensor:
        """Append a layer normalization over the last dimension, as primitive operators.

        The chain is the one that PyTorch's exporter writes below opset 17: `torch/onnx/symbolic_opset9.py`,
        `native_layer_norm`.
        """
        features = x.shape[-1:]
        centred = self.subtract(x, self._mean(x))
        squared = self.node("Pow", [centred, self.scalar(2.0)], shape=x.shape)
        variance = self.add(self._mean(squared), self.scalar(epsilon))
        deviation = self.node("Sqrt", [variance], shape=variance.shape)
        scaled = self.multiply(
            self.divide(centred, deviation), self.uniform("layer_norm_scale", features, low=0.9, high=1.1)
        )
        return self.add(scaled, self.normal("layer_norm_bias", features, deviation=0.1))

    def _mean(self, x: Tensor) -> Tensor:
        return self.node("ReduceMean", [x], shape=(*x.shape[:-1], 1), axes=[-1], keepdims=1)

    def _elementwise(self, op: str, operands: tuple[Tensor, Tensor]) -> Tensor:
        return self.node(op, operands, shape=np.broadcast_shapes(*(operand.shape for operand in operands)))

    def _fresh(self, name: str) -> str:
        self._counts[name] += 1
        return f"{name}_{self._counts[name]}"


def _window(x: Tensor, *, kernel: int, stride: int, padding: int) -> tuple[int, int]:
    """Return height and width after a sliding window."""
    height, width = x.shape[2:]
    return (height + 2 * padding - kernel) // stride + 1, (width + 2 * padding - kernel) // stride + 1
