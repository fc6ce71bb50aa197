"""Draws networks of one operator: every kind that schedules for CPUs know, with usual, odd and prime sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LEAST_WORK, MOST_WORK = 2e6, 4e8
"""Multiply-adds of a node, or bytes that it moves times eight, which is about what a core does in the same time."""


@dataclass
class Draw:
    """One operator with its operands.

    Attributes:
        random: Source of all sizes and values.
        inputs: Arrays by name that a call gets.
        weights: Arrays by name that are constants.
        operations: Multiply-adds.
        text: What was drawn, in words.
    """

    random: np.random.Generator
    inputs: dict[str, Any] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    outputs: dict[str, int] = field(default_factory=dict)
    operations: float = 0.0
    text: str = ""

    def one_of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def size(self, low: int, high: int) -> int:
        """Return a size: equally often a usual one, an odd one and a prime."""
        drawn = round(math.exp(self.random.uniform(math.log(low), math.log(high))))
        kind = self.random.integers(3)
        if kind == 0:
            step = 8 if drawn >= 12 else 1
            return max(low, drawn // step * step)
        drawn |= 1
        while kind == 2 and any(drawn % each == 0 for each in range(3, math.isqrt(drawn) + 1, 2)):
            drawn += 2
        return drawn

    def shape(self, rank: int, elements: tuple[int, int] = (20_000, 3_000_000)) -> list[int]:
        """Return a shape of about so many elements."""
        total = math.exp(self.random.uniform(*map(math.log, elements)))
        shares = self.random.dirichlet([2.0] * rank)
        return [self.size(max(1, round(total**share * 0.8)), max(2, round(total**share * 1.2))) for share in shares]

    def values(self, shape: Sequence[int]) -> Any:
        return self.random.standard_normal(tuple(shape), dtype="float32")

    def input(self, shape: Sequence[int], values: Any = None) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.values(shape) if values is None else np.asarray(values)
        self.text += f" {'x'.join(map(str, shape))}"
        return name

    def weight(self, values: Any, *, said: bool = False) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(values)
        if said:
            self.text += f" by {'x'.join(map(str, self.weights[name].shape))}"
        return name

    def node(
        self, kind: str, *inputs: str, outputs: Sequence[int] = (onnx.TensorProto.FLOAT,), **settings: Any
    ) -> None:
        names = [f"y{place}" for place in range(len(outputs))]
        self.outputs = dict(zip(names, outputs, strict=True))
        self.nodes = [helper.make_node(kind, inputs, names, **settings)]
        said = {name: value for name, value in settings.items() if name not in ("epsilon", "to")}
        self.text = f"{kind}{self.text}" + "".join(f" {name}={value}" for name, value in said.items())

    def model(self) -> onnx.ModelProto:
        def value(name: str, kind: int, shape: Any) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, kind, shape)

        types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in self.inputs.items()}
        graph = helper.make_graph(
            self.nodes,
            "node",
            [value(name, types[name], array.shape) for name, array in self.inputs.items()],
            [value(name, kind, None) for name, kind in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def _convolution(
    draw: Draw, kernel: int, *, stride: int = 1, dilation: int = 1, groups: str = "", transposed: bool = False
) -> None:
    image = [draw.size(5, 112), draw.size(5, 112)]
    channels, filters, number = draw.size(3, 512), draw.size(3, 512), 1
    if groups == "depthwise":
        number = filters = channels
    elif groups:
        number = draw.one_of(2, 3, 4, 8, 32)
        channels, filters = number * draw.size(2, 64), number * draw.size(2, 64)
    rows, columns = kernel, draw.one_of(kernel, kernel, kernel, 1)
    shape = [channels, filters, rows, columns] if transposed else [filters, channels // number, rows, columns]
    places = math.prod(image) / (1 if transposed else stride**2)
    draw.operations = places * filters * channels / number * rows * columns
    is_padded = draw.one_of(True, True, False) or min(image) <= dilation * (kernel - 1)
    pads = [dilation * (rows // 2), dilation * (columns // 2)] * 2 if is_padded else [0] * 4
    data = draw.input([1, channels, *image])
    weights = draw.weight(draw.values(shape) / np.sqrt(channels / number * rows * columns, dtype="float32"))
    bias = [draw.weight(draw.values([filters]))] if draw.one_of(True, False) else []
    draw.node(
        "ConvTranspose" if transposed else "Conv", data, weights, *bias, kernel_shape=[rows, columns],
        strides=[stride] * 2, pads=pads, dilations=[dilation] * 2, group=number,
    )  # fmt: skip
    draw.text += f" filters={filters}"


def _matmul(draw: Draw) -> None:
    rows, depth, columns = draw.size(1, 512), draw.size(16, 2048), draw.size(16, 2048)
    draw.operations = rows * depth * columns
    data = draw.input([draw.size(1, 4), rows, depth] if rows > 1 and draw.one_of(True, False) else [rows, depth])
    draw.node("MatMul", data, draw.weight(draw.values([depth, columns]), said=True))


def _gemm(draw: Draw) -> None:
    rows, depth, columns, flipped = draw.size(1, 512), draw.size(16, 2048), draw.size(16, 2048), draw.one_of(0, 1)
    draw.operations = rows * depth * columns
    weights = draw.weight(draw.values([columns, depth] if flipped else [depth, columns]), said=True)
    draw.node("Gemm", draw.input([rows, depth]), weights, draw.weight(draw.values([columns])), transB=flipped)


def _batched(draw: Draw) -> None:
    batch, rows, depth, columns = draw.size(1, 24), draw.size(1, 256), draw.size(8, 256), draw.size(8, 256)
    draw.operations = batch * rows * depth * columns
    draw.node("MatMul", draw.input([batch, rows, depth]), draw.input([batch, depth, columns]))


def _softmax(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(2, 3, 4))
    draw.node(draw.one_of("Softmax", "Softmax", "LogSoftmax"), draw.input(shape), axis=draw.one_of(-1, -1, 1, 0))


def _layer_norm(draw: Draw) -> None:
    shape, axis = draw.shape(3), draw.one_of(-1, -1, 1)
    scale, bias = (draw.weight(draw.values(shape[axis:])) for _ in range(2))
    draw.node("LayerNormalization", draw.input(shape), scale, bias, axis=axis)


def _other_norm(draw: Draw) -> None:
    shape = draw.shape(4)
    kind = draw.one_of("InstanceNormalization", "LpNormalization", "BatchNormalization", "MeanVarianceNormalization")
    count = {"InstanceNormalization": 2, "BatchNormalization": 4}.get(kind, 0)
    constants = [draw.weight(np.abs(draw.values([shape[1]])) + 0.1) for _ in range(count)]
    draw.node(kind, draw.input(shape), *constants, **({"axis": draw.one_of(-1, 1, 2)} if kind.startswith("Lp") else {}))


def _pool(draw: Draw, kind: str) -> None:
    kernel, stride = draw.one_of(2, 3, 3, 5), draw.one_of(1, 2, 2, 3)
    data = draw.input([draw.one_of(1, 1, 2), draw.size(3, 256), draw.size(8, 112), draw.size(8, 112)])
    pads = [draw.one_of(0, kernel // 2)] * 4
    draw.operations = draw.inputs[data].size / stride**2 * kernel**2
    draw.node(kind, data, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)


def _global_pool(draw: Draw) -> None:
    shape = [draw.size(1, 8), draw.size(3, 1024), draw.size(5, 60), draw.size(5, 60)]
    draw.node(draw.one_of("GlobalAveragePool", "GlobalMaxPool"), draw.input(shape))


def _resize(draw: Draw, mode: str) -> None:
    image, factor = [draw.size(5, 64), draw.size(5, 64)], draw.one_of(2.0, 2.0, 3.0, 1.7, 0.5)
    shape = [1, draw.size(3, 256), *image]
    sizes = draw.weight(np.array([*shape[:2], *(max(2, round(each * factor)) for each in image)], "int64"))
    place = draw.one_of("half_pixel", "asymmetric", "align_corners" if mode == "linear" else "asymmetric")
    settings = {"nearest_mode": "floor"} if mode == "nearest" else {}
    draw.node("Resize", draw.input(shape), "", "", sizes, mode=mode, coordinate_transformation_mode=place, **settings)
    draw.text += f" factor={factor}"
    draw.operations = math.prod(shape) * factor**2


def _reduce(draw: Draw) -> None:
    rank = draw.one_of(2, 3, 4)
    axes = sorted(int(each) for each in draw.random.permutation(rank)[: draw.one_of(1, 1, 2)])
    kind = "Reduce" + draw.one_of("Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod")
    data = draw.input(draw.shape(rank))
    draw.node(kind, data, draw.weight(np.array(axes, "int64")), keepdims=draw.one_of(0, 1))
    draw.text += f" axes={axes}"


def _unary(draw: Draw) -> None:
    kind = draw.one_of(
        "Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Sqrt", "Abs", "Neg", "Floor", "HardSwish", "Softplus", "Elu",
        "LeakyRelu", "HardSigmoid", "Reciprocal", "Gelu", "Mish", "Sin",
    )  # fmt: skip
    draw.node(kind, draw.input(draw.shape(draw.one_of(1, 2, 4))))
    if kind == "Sqrt":
        draw.inputs["x0"] = np.abs(draw.inputs["x0"])


def _broadcast(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(2, 3, 4))
    other = [size if draw.one_of(True, True, False) else 1 for size in shape]
    kind, operands = draw.one_of("Add", "Mul", "Sub", "Div", "Max", "Where", "PRelu"), [draw.input(shape)]
    operands.append(draw.input(other))
    if kind == "Where":
        operands.insert(0, draw.input(shape, draw.random.random(shape) < 0.5))
    draw.node(kind, *operands)


def _transpose(draw: Draw) -> None:
    rank = draw.one_of(2, 3, 4)
    draw.node("Transpose", draw.input(draw.shape(rank)), perm=[int(each) for each in draw.random.permutation(rank)])


def _concat(draw: Draw) -> None:
    rank = draw.one_of(2, 3, 4)
    axis, shape = int(draw.random.integers(rank)), draw.shape(rank, (20_000, 1_000_000))
    parts = [[*shape[:axis], draw.size(1, 2 * shape[axis] + 1), *shape[axis + 1 :]] for _ in range(draw.one_of(2, 3))]
    draw.node("Concat", *(draw.input(each) for each in parts), axis=axis)


def _slice(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(2, 3, 4))
    axis, step = int(draw.random.integers(len(shape))), draw.one_of(1, 1, 2)
    begin = int(draw.random.integers(max(1, shape[axis] // 3)))
    bounds = [draw.weight(np.array([each], "int64")) for each in (begin, shape[axis], axis, step)]
    draw.node("Slice", draw.input(shape), *bounds)
    draw.text += f" axis={axis} begin={begin} step={step}"


def _pad(draw: Draw) -> None:
    shape = draw.shape(4)
    pads = [0, 0, *(int(draw.random.integers(1, 4)) for _ in range(2))] * 2
    draw.node("Pad", draw.input(shape), draw.weight(np.array(pads)), mode=draw.one_of("constant", "reflect", "edge"))


def _gather(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(2, 3), (20_000, 1_000_000))
    axis = draw.one_of(0, 0, len(shape) - 1)
    count = max(4, min(2000, round(500_000 * shape[axis] / math.prod(shape))))
    indices = draw.random.integers(0, shape[axis], draw.size(4, count + 4))
    draw.node("Gather", draw.input(shape), draw.input(indices.shape, indices), axis=axis)


def _scatter(draw: Draw) -> None:
    rows, width = draw.size(16, 2000), draw.size(8, 500)
    count, kind = draw.size(4, rows), draw.one_of("ScatterND", "ScatterElements")
    places = draw.random.permutation(rows)[: min(count, rows)]
    indices = places[:, None] if kind == "ScatterND" else np.repeat(places[:, None], width, 1)
    operands = draw.input([rows, width]), draw.input(indices.shape, indices), draw.input([len(places), width])
    draw.node(kind, *operands)


def _top_k(draw: Draw) -> None:
    shape = [draw.size(1, 300), draw.size(50, 5000)]
    count = draw.weight(np.array([draw.one_of(1, 5, 20)], "int64"))
    draw.node("TopK", draw.input(shape), count, outputs=[onnx.TensorProto.FLOAT, onnx.TensorProto.INT64])


def _arg_max(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(2, 3))
    axis, kind = int(draw.random.integers(len(shape))), draw.one_of("ArgMax", "ArgMin")
    draw.node(kind, draw.input(shape), outputs=[onnx.TensorProto.INT64], axis=axis, keepdims=0)


def _cum_sum(draw: Draw) -> None:
    shape = draw.shape(draw.one_of(1, 2, 3), (20_000, 500_000))
    axis = int(draw.random.integers(len(shape)))
    draw.node("CumSum", draw.input(shape), draw.weight(np.array(axis, "int64")))
    draw.text += f" axis={axis}"


def _one_hot(draw: Draw) -> None:
    count, depth = draw.size(50, 3000), draw.size(20, 1000)
    draw.operations = 8.0 * count * depth
    places = draw.input([count], draw.random.integers(0, depth, count))
    draw.node("OneHot", places, draw.weight(np.array(depth)), draw.weight(np.array([0, 1], "float32")), axis=-1)
    draw.text += f" depth={depth}"


KINDS: Mapping[str, tuple[int, Callable[[Draw], None]]] = {
    "convolution 1x1": (7, lambda draw: _convolution(draw, 1)),
    "convolution 3x3": (7, lambda draw: _convolution(draw, 3)),
    "convolution 5x5, 7x7": (5, lambda draw: _convolution(draw, draw.one_of(5, 7))),
    "strided convolution": (6, lambda draw: _convolution(draw, draw.one_of(1, 3, 5, 7), stride=draw.one_of(2, 2, 3))),
    "dilated convolution": (4, lambda draw: _convolution(draw, 3, dilation=draw.one_of(2, 3))),
    "grouped convolution": (6, lambda draw: _convolution(draw, draw.one_of(1, 3), groups="some")),
    "depthwise convolution": (
        7,
        lambda draw: _convolution(draw, draw.one_of(2, 3, 5, 7), stride=draw.one_of(1, 1, 2), groups="depthwise"),
    ),
    "transposed convolution": (
        4,
        lambda draw: _convolution(draw, draw.one_of(2, 3, 4), stride=draw.one_of(1, 2, 2), transposed=True),
    ),
    "matmul": (6, _matmul),
    "gemm": (5, _gemm),
    "batched matmul": (5, _batched),
    "softmax": (4, _softmax),
    "layer norm": (3, _layer_norm),
    "other norm": (4, _other_norm),
    "max pool": (3, lambda draw: _pool(draw, "MaxPool")),
    "average pool": (3, lambda draw: _pool(draw, "AveragePool")),
    "global pool": (2, _global_pool),
    "nearest resize": (2, lambda draw: _resize(draw, "nearest")),
    "linear resize": (3, lambda draw: _resize(draw, "linear")),
    "reduction": (6, _reduce),
    "elementwise": (6, _unary),
    "broadcast": (5, _broadcast),
    "transpose": (4, _transpose),
    "concatenation": (3, _concat),
    "slice": (2, _slice),
    "pad": (2, _pad),
    "gather": (2, _gather),
    "scatter": (2, _scatter),
    "top k": (2, _top_k),
    "arg max": (2, _arg_max),
    "cumulative sum": (2, _cum_sum),
    "one hot": (1, _one_hot),
}
"""Share and function of each kind."""


def draw_node(number: int) -> tuple[str, Draw]:
    """Return the kind of a node and the node; the same for the same number."""
    random = np.random.default_rng([0, number])
    shares = np.array([share for share, _ in KINDS.values()], float)
    kind = list(KINDS)[int(random.choice(len(KINDS), p=shares / shares.sum()))]
    while True:
        draw = Draw(random)
        KINDS[kind][1](draw)
        size = sum(array.nbytes for array in (*draw.inputs.values(), *draw.weights.values()))
        work = max(draw.operations, 8.0 * size)
        if LEAST_WORK <= work <= MOST_WORK and all(min(array.shape, default=1) > 0 for array in draw.inputs.values()):
            return kind, draw
