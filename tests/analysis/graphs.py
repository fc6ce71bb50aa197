"""A builder of summaries, so that every test shows its graph."""

from passsearch.analysis.graph import Dataflow, dataflow
from passsearch.core import ModuleSummary, Operator, TensorType


class Net:
    """A network under construction; every method adds an operator and returns its index."""

    def __init__(self) -> None:
        self.operators: list[Operator] = []

    def op(self, kind: str, *inputs: int, shape: tuple[int | None, ...] | None = None, **attributes) -> int:
        """Add any operator; without ``shape`` it has the shape of its first argument."""
        value = attributes.pop("value", None)
        if shape is None:
            shape = self.shape(inputs[0])
        index = len(self.operators)
        types = (TensorType(tuple(shape), "float32"),)
        self.operators.append(Operator(index, kind, kind, inputs, types, attributes, value))
        return index

    def shape(self, index: int) -> tuple[int | None, ...]:
        return self.operators[index].outputs[0].shape

    def input(self, *shape: int | None) -> int:
        return self.op("input", shape=shape)

    def constant(self, *shape: int, value: float | None = None) -> int:
        return self.op("constant", shape=shape, value=value)

    def number(self, value: float) -> int:
        return self.constant(value=value)

    def conv(
        self, x: int, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1, layout: str = "NCHW"
    ) -> int:
        """Add a convolution that keeps the size of the map at stride 1."""
        sizes = dict(zip(layout, self.shape(x), strict=True))
        weight = self.constant(channels, sizes["C"] // groups, kernel, kernel)
        sizes["C"] = channels
        for axis in "HW":
            # Rounded up, as padding 1 with kernel 3 does.
            sizes[axis] = None if sizes[axis] is None else -(-sizes[axis] // stride)
        return self.op(
            "conv2d",
            x,
            weight,
            shape=tuple(sizes[axis] for axis in layout),
            kernel_size=[kernel, kernel],
            strides=[stride, stride],
            groups=groups,
            data_layout=layout,
            kernel_layout="OIHW",
        )

    def cbr(self, x: int, channels: int, activation: str = "relu", **options) -> int:
        """Add convolution, bias and activation."""
        y = self.conv(x, channels, **options)
        return self.op(activation, self.op("bias_add", y, self.constant(channels)))

    def dense(self, x: int, units: int) -> int:
        """Add a dense layer with bias."""
        weight = self.constant(units, self.shape(x)[-1])
        y = self.op("dense", x, weight, shape=(*self.shape(x)[:-1], units))
        return self.op("add", y, self.constant(units))

    def matmul(self, a: int, b: int) -> int:
        shape = (*self.shape(a)[:-1], self.shape(b)[-2])
        return self.op("batch_matmul", a, b, shape=shape, transpose_b=True)

    def norm(self, x: int) -> int:
        size = self.shape(x)[-1]
        return self.op("layer_norm", x, self.constant(size), self.constant(size), axis=-1)

    def attention(self, x: int) -> int:
        """Add one attention head with its three projections, scale and output projection."""
        q, k, v = (self.dense(x, self.shape(x)[-1]) for _ in range(3))
        scores = self.op("divide", self.matmul(q, k), self.number(8.0))
        values = self.op("transpose", v, shape=(*self.shape(v)[:-2], self.shape(v)[-1], self.shape(v)[-2]))
        return self.dense(self.matmul(self.op("softmax", scores, axis=-1), values), self.shape(x)[-1])

    def basic_block(self, x: int, channels: int, stride: int = 1) -> int:
        """Add the block of ResNet-18, with a projection if the shape changes."""
        same = stride == 1 and self.shape(x)[1] == channels
        shortcut = x if same else self.conv(x, channels, kernel=1, stride=stride)
        y = self.conv(self.cbr(x, channels, stride=stride), channels)
        return self.op("relu", self.op("add", y, shortcut))

    def summary(self, *results: int) -> ModuleSummary:
        return ModuleSummary(tuple(self.operators), results or tuple(range(len(self.operators)))[-1:])

    def flow(self, *results: int) -> Dataflow:
        return dataflow(self.summary(*results))


def count(features, name: str) -> int:
    """Return how often a feature occurs; the feature must exist."""
    return features[name].count
