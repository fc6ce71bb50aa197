"""Random ONNX networks, with operators mixed as exporters mix them; the seed decides everything."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

Shape = tuple[int, ...]
ALPHA = {"LeakyRelu": 0.2, "Elu": 0.7, "HardSigmoid": 0.2, "ThresholdedRelu": 0.3}
ACTIVATIONS: Sequence[tuple[str, dict[str, Any]]] = [
    (name, {"alpha": ALPHA[name]} if name in ALPHA else {})
    for name in (
        *("Relu", "Sigmoid", "Tanh", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Softplus", "Softsign"),
        *("ThresholdedRelu", "Abs", "Neg", "Sign", "Floor", "Ceil", "Round", "Erf", "Exp"),
    )
]
BINARIES = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum")
REDUCTIONS = ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
RESIZES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


class Network:
    """A network that grows by one operator at a time, with the shape of every value known."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.dtype = "float16" if self.random.random() < 0.15 else "float32"
        self.opset = int(self.random.choice([13, 14, 15, 17]))
        rank = int(self.random.choice([2, 3, 4, 4, 4]))
        sizes = {2: (3, 8), 3: (2, 5, 8), 4: (1, 4, 6, 8)}[rank]
        self.inputs = {"x": (self.dtype, sizes)}
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.shapes: dict[str, Shape] = {"x": sizes}
        self.types: dict[str, str] = {"x": self.dtype}

    def grow(self, steps: int) -> onnx.ModelProto:
        """Add operators; the outputs are the last value and one before it."""
        while len(self.nodes) < steps:
            choices = STEPS[:]
            self.random.shuffle(choices)  # type: ignore[arg-type]
            name = self.any()
            for step in choices:
                if step(self, name, self.shapes[name]):
                    break
        made = [node.output[0] for node in self.nodes if self.types[node.output[0]] != "bool"]
        return self.model(sorted({made[-1], str(self.random.choice(made))}))

    def any(self, shape: Shape | None = None) -> str:
        """Return a value of the network's type, one of the newest four, or of a shape."""
        names = [
            name
            for name, kind in self.types.items()
            if kind == self.dtype and (shape is None or self.shapes[name] == shape)
        ]
        return str(self.random.choice(names[-4:]))

    def one(self, *choices: Any) -> Any:
        """Return one of several values."""
        return choices[int(self.random.integers(len(choices)))]

    def weight(self, *shape: int, scale: float | None = None) -> str:
        """Add a weight of the network's type and return its name."""
        scale = scale or 1 / max(1.0, float(np.prod(shape[1:]))) ** 0.5
        return self.constant((self.random.standard_normal(shape) * scale).astype(self.dtype))

    def constant(self, value: Any) -> str:
        """Add a constant and return its name."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, kind: str, inputs: Sequence[str], *, outputs: int = 1, **attributes: Any) -> str:
        """Add an operator and return its first output; an empty text where its result is too large."""
        names = [f"v{len(self.nodes)}" + (f"_{place}" if place else "") for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        inferred = shape_inference.infer_shapes(self.model(names), strict_mode=True, data_prop=True)
        for value in inferred.graph.output:
            tensor = value.type.tensor_type
            self.shapes[value.name] = tuple(size.dim_value for size in tensor.shape.dim)
            self.types[value.name] = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if max(np.prod(self.shapes[name]) for name in names) > 1 << 14 or not all(self.shapes[names[0]]):
            self.nodes.pop()
            for name in names:
                del self.shapes[name], self.types[name]
            return ""
        return names[0]

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        """Return the network with these outputs."""
        value = helper.make_tensor_value_info
        inputs = [
            value(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
            for name, (kind, shape) in self.inputs.items()
        ]
        kinds = [self.types.get(name) for name in outputs]
        types = [0 if kind is None else helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for kind in kinds]
        made = [
            value(name, kind, self.shapes.get(name)) if kind else onnx.ValueInfoProto(name=name)
            for name, kind in zip(outputs, types, strict=True)
        ]
        graph = helper.make_graph(self.nodes, "network", inputs, made, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)


Step = Callable[[Network, str, Shape], str]


def activation(net: Network, x: str, _: Shape) -> str:
    kind, attributes = net.one(*ACTIVATIONS)
    if kind == "HardSwish" and net.opset < 14:
        return ""
    return net.add(kind, [x], **attributes)


def clip(net: Network, x: str, _: Shape) -> str:
    low, high = (net.constant(np.array(value, net.dtype)) for value in (net.one(0.0, -1.0), net.one(6.0, 1.0)))
    return net.add("Clip", net.one([x, low, high], [x, "", high], [x, low]))


def convolution(net: Network, x: str, shape: Shape) -> str:
    if len(shape) not in (3, 4):
        return ""
    rank, group = len(shape) - 2, net.one(1, 1, shape[1])
    kernel, stride = net.one(1, 3), net.one(1, 1, 2)
    if min(shape[2:]) < kernel:
        return ""
    count = shape[1] * net.one(1, 2) if group > 1 else net.one(4, 6)
    weight = net.weight(count, shape[1] // group, *[kernel] * rank)
    inputs = [x, weight, *net.one([], [net.weight(count)])]
    pads = {"pads": [kernel // 2] * 2 * rank} if net.one(0, 1) else {"auto_pad": net.one("SAME_UPPER", "VALID")}
    made = net.add("Conv", inputs, group=group, strides=[stride] * rank, **pads)
    return norm_batch(net, made, net.shapes[made]) if made and net.one(0, 1) else made


def turned(net: Network, x: str, shape: Shape) -> str:
    if len(shape) != 4:
        return ""
    return net.add("ConvTranspose", [x, net.weight(shape[1], 3, 2, 2)], strides=[2, 2])


def norm_batch(net: Network, x: str, shape: Shape) -> str:
    if len(shape) < 2:
        return ""
    scale, shift, mean = (net.weight(shape[1], scale=0.5) for _ in range(3))
    variance = net.constant((net.random.random(shape[1]) + 0.5).astype(net.dtype))
    return net.add("BatchNormalization", [x, scale, shift, mean, variance])


def norm_other(net: Network, x: str, shape: Shape) -> str:
    if len(shape) > 2 and net.one(0, 1):
        parts = [net.weight(shape[1]), net.weight(shape[1])]
        return net.add("InstanceNormalization", [x, *parts])
    if net.opset < 17 or not shape:
        return ""
    axis = net.one(-1, len(shape) - 1)
    return net.add("LayerNormalization", [x, net.weight(shape[-1]), *net.one([], [net.weight(shape[-1])])], axis=axis)


def pool(net: Network, x: str, shape: Shape) -> str:
    if len(shape) != 4:
        return ""
    if net.one(0, 0, 1):
        return net.add(net.one("GlobalAveragePool", "GlobalMaxPool"), [x])
    kernel, kind = net.one(2, 3), net.one("MaxPool", "AveragePool")
    if min(shape[2:]) < kernel:
        return ""
    pads: dict[str, Any] = net.one({}, {"pads": [1] * 4}, {"auto_pad": "SAME_UPPER"}, {"auto_pad": "SAME_LOWER"})
    extra = {"count_include_pad": 1} if kind == "AveragePool" and net.one(0, 1) else {}
    return net.add(kind, [x], kernel_shape=[kernel] * 2, strides=[net.one(1, 2)] * 2, **pads, **extra)


def resize(net: Network, x: str, shape: Shape) -> str:
    if len(shape) != 4:
        return ""
    factors = net.one([1, 1, 2, 2], [1, 1, 2, 3], [1, 2, 2, 1], [1, 1, 0.5, 0.5])
    if any(size * factor != int(size * factor) for size, factor in zip(shape, factors, strict=True)):
        return ""
    mode = net.one("nearest", "linear")
    options = {"mode": mode, "coordinate_transformation_mode": net.one(*RESIZES)}
    options |= {"nearest_mode": net.one("floor", "round_prefer_floor")} if mode == "nearest" else {}
    return net.add("Resize", [x, "", net.constant(np.array(factors, "float32"))], **options)


def transpose(net: Network, x: str, shape: Shape) -> str:
    if len(shape) < 2:
        return ""
    order = [0, 2, 3, 1] if len(shape) == 4 and net.one(0, 1) else net.random.permutation(len(shape)).tolist()
    return net.add("Transpose", [x], perm=order)


def reshape(net: Network, x: str, shape: Shape) -> str:
    if len(shape) < 2:
        return net.add("Unsqueeze", [x, net.constant(np.array([0]))])
    if net.one(0, 1):
        return net.add("Flatten", [x], axis=net.one(1, len(shape) - 1))
    target = net.one([0, -1], [shape[0], -1, shape[-1]], [1, shape[0], -1, shape[-1]])
    return net.add("Reshape", [x, net.constant(np.array(target))])


def slices(net: Network, x: str, shape: Shape) -> str:
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return ""
    axis = net.one(*axes)
    begin, end, step = net.one((0, -1, 1), (1, 1000, 1), (-1, -1000, -1), (0, 1000, 2))
    return net.add("Slice", [x, *(net.constant(np.array([value])) for value in (begin, end, axis, step))])


def gather(net: Network, x: str, shape: Shape) -> str:
    if not shape:
        return ""
    axis = int(net.random.integers(len(shape)))
    indices = net.random.integers(-shape[axis], shape[axis], net.one((2,), (2, 2), (1,)))
    return net.add("Gather", [x, net.constant(indices)], axis=axis)


def concat(net: Network, x: str, shape: Shape) -> str:
    return net.add("Concat", [x, net.any(shape)], axis=net.one(*range(-len(shape), len(shape)))) if shape else ""


def split(net: Network, x: str, shape: Shape) -> str:
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if not axes:
        return ""
    axis = net.one(*axes)
    return net.add("Split", [x, net.constant(np.array([1, shape[axis] - 1]))], outputs=2, axis=axis)


def reduce(net: Network, x: str, shape: Shape) -> str:
    if not shape:
        return ""
    axes = sorted(net.random.choice(len(shape), net.one(1, min(2, len(shape))), replace=False).tolist())
    return net.add(net.one(*REDUCTIONS), [x], axes=axes, keepdims=net.one(0, 1, 1))


def softmax(net: Network, x: str, shape: Shape) -> str:
    return net.add(net.one("Softmax", "LogSoftmax"), [x], axis=net.one(-1, *range(len(shape)))) if shape else ""


def product(net: Network, x: str, shape: Shape) -> str:
    if not shape:
        return ""
    if len(shape) == 2 and net.one(0, 1):
        options = {"alpha": net.one(1.0, 0.5), "transB": net.one(0, 1)}
        weight = net.weight(5, shape[1]) if options["transB"] else net.weight(shape[1], 5)
        return net.add("Gemm", [x, weight, net.weight(5)], **options)
    return net.add("MatMul", [x, net.weight(shape[-1], net.one(4, 8))])


def attention(net: Network, x: str, shape: Shape) -> str:
    if len(shape) < 2:
        return ""
    order = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
    turned_x = net.add("Transpose", [x], perm=order)
    scores = net.add("MatMul", [x, turned_x]) if turned_x else ""
    weights = net.add("Softmax", [scores], axis=-1) if scores else ""
    return net.add("MatMul", [weights, x]) if weights else ""


def binary(net: Network, x: str, shape: Shape) -> str:
    other = net.one(net.any(shape), net.weight(*shape[-1:]), net.constant(np.array(net.one(2, 0.5), net.dtype)))
    return net.add(net.one(*BINARIES), net.one([x, other], [other, x]))


def where(net: Network, x: str, shape: Shape) -> str:
    condition = net.add(net.one("Greater", "Less", "GreaterOrEqual"), [x, net.constant(np.array(0.1, net.dtype))])
    other = net.one(net.any(shape), net.constant(np.array(net.one(0, -1e4), net.dtype)))
    return net.add("Where", [condition, *net.one([x, other], [other, x])])


def casts(net: Network, x: str, _: Shape) -> str:
    small = net.add("Clip", [x, net.constant(np.array(-9, net.dtype)), net.constant(np.array(9, net.dtype))])
    condition = net.add("IsNaN", [small])
    known = net.add("Where", [condition, net.constant(np.array(1, net.dtype)), small])
    kind = net.one("int64", "int32")
    whole = net.add("Cast", [known], to=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    done = net.add(net.one("Add", "Mul", "Sub", "Div", "Max"), [whole, net.constant(np.array(3, kind))])
    return net.add("Cast", [done], to=helper.np_dtype_to_tensor_dtype(np.dtype(net.dtype)))


def widened(net: Network, x: str, shape: Shape) -> str:
    rank = len(shape)
    if not rank:
        return ""
    kind = net.one("Pad", "Expand", "Tile")
    if kind == "Pad":
        mode = net.one("constant", "edge", "reflect") if min(shape) > 1 else "constant"
        widths = [0] * (rank - 1) + [1] + [0] * (rank - 1) + [1]
        return net.add("Pad", [x, net.constant(np.array(widths))], mode=mode)
    sizes = [2, *shape] if kind == "Expand" else [1] * (rank - 1) + [2]
    return net.add(kind, [x, net.constant(np.array(sizes))])


def other(net: Network, x: str, shape: Shape) -> str:
    kind = net.one("CumSum", "TopK", "ArgMax", "PRelu", "Pow", "Sqrt")
    if not shape or (kind == "CumSum" and net.dtype == "float16"):
        return ""
    if kind == "CumSum":
        return net.add("CumSum", [x, net.constant(np.array(-1))], exclusive=net.one(0, 1), reverse=net.one(0, 1))
    if kind == "TopK":
        return net.add("TopK", [x, net.constant(np.array([1]))], outputs=2, axis=-1)
    if kind == "ArgMax":
        return net.add("ArgMax", [x], axis=-1, keepdims=1)
    if kind == "PRelu":
        return net.add("PRelu", [x, net.weight(*shape[-1:], scale=0.3)])
    if kind == "Pow":
        return net.add("Pow", [x, net.constant(np.array(net.one(2, 3), net.dtype))])
    return net.add("Sqrt", [net.add("Abs", [x])])


STEPS: list[Step] = [
    *(other, widened, activation, activation, clip, convolution, convolution, turned, norm_batch, norm_other, pool),
    *(resize, transpose, reshape, slices, gather, concat, split, reduce, softmax, product, attention, binary, binary),
    *(where, casts),
]
"""What a network may grow by; a step returns an empty text where it does not apply."""
