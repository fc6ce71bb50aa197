"""Trains two small networks on the digits that scikit-learn ships, for ``passsearch bench --labels``.

``python benchmarks/train_digits.py FOLDER`` needs PyTorch and scikit-learn, takes minutes on two cores, and writes
``digits_conv.onnx``, ``digits_transformer.onnx`` and ``digits.npz``, the images that were not trained on with their
labels. The batch size of the networks is open: ``passsearch bench FOLDER/digits_conv.onnx --batch 1 --labels
FOLDER/digits.npz --engines …``. The ONNX operators are those that every engine of passsearch takes.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional

INPUT, EPOCHS, WIDTH, HEADS, OPSET = "image", 40, 32, 4, 13


class Convolutional(nn.Module):
    """Three convolutions with batch norms, and a layer on their mean."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(*sizes, 3, padding=1) for sizes in ((1, 32), (32, 64), (64, 64)))
        self.norms = nn.ModuleList(nn.BatchNorm2d(size) for size in (32, 64, 64))
        self.head = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return a value for each digit."""
        for conv, norm in zip(self.convs, self.norms, strict=True):
            image = functional.relu(norm(conv(image)))
        return self.head(image.mean((2, 3)))  # type: ignore[no-any-return]


class Transformer(nn.Module):
    """Two encoder blocks on the rows of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places = nn.Linear(8, WIDTH), nn.Parameter(torch.zeros(8, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return a value for each digit."""
        rows = self.embed(image[:, 0]) + self.places
        for block in self.blocks:
            rows = block(rows)
        return self.head(rows.mean(1))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and two layers, each with a layer norm before it and a way around it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.merge = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows of the same shape."""
        x = self.first(rows)
        parts = [layer(x).view(-1, 8, HEADS, WIDTH // HEADS).transpose(1, 2) for layer in self.inputs]
        weights = torch.softmax(parts[0] @ parts[1].transpose(2, 3) * (WIDTH // HEADS) ** -0.5, -1)
        rows = rows + self.merge((weights @ parts[2]).transpose(1, 2).reshape(-1, 8, WIDTH))
        return rows + self.down(functional.relu(self.up(self.second(rows))))  # type: ignore[no-any-return]

    @property
    def inputs(self) -> tuple[nn.Linear, ...]:
        """The layers that read the input of the attention."""
        return self.query, self.key, self.value


class Graph:
    """An ONNX graph that grows operator by operator."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Any] = {}

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> str:
        """Add an operator whose inputs are names or arrays; return the name of its output."""
        name = f"v{len(self.nodes)}"
        names = [each if isinstance(each, str) else self._weight(each) for each in inputs]
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        return name

    def _weight(self, value: Any) -> str:
        array = value.detach().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
        name = f"w{len(self.weights)}"
        self.weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def linear(self, data: str, layer: nn.Linear) -> str:
        """Add a layer on the last axis."""
        return self.add("Add", self.add("MatMul", data, layer.weight.T), layer.bias)

    def layer_norm(self, data: str, layer: nn.LayerNorm) -> str:
        """Add a layer norm in primitive operators."""
        mean = self.add("ReduceMean", data, axes=[-1], keepdims=1)
        centred = self.add("Sub", data, mean)
        variance = self.add("ReduceMean", self.add("Mul", centred, centred), axes=[-1], keepdims=1)
        deviation = self.add("Sqrt", self.add("Add", variance, np.float32(layer.eps)))
        scaled = self.add("Mul", self.add("Div", centred, deviation), layer.weight)
        return self.add("Add", scaled, layer.bias)

    def save(self, output: str, path: Path) -> None:
        """Write the graph with an open batch size."""
        shapes = {INPUT: ["N", 1, 8, 8], output: ["N", 10]}
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        graph = helper.make_graph(self.nodes, path.stem, values[:1], values[1:], list(self.weights.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        onnx.save(model, path)


def convolutional_graph(network: Convolutional) -> tuple[Graph, str]:
    """Return the graph of a trained network, and the name of its output."""
    graph, data = Graph(), INPUT
    window = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1}
    for conv, norm in zip(network.convs, network.norms, strict=True):
        data = graph.add("Conv", data, conv.weight, conv.bias, **window)
        numbers = (norm.weight, norm.bias, norm.running_mean, norm.running_var)
        data = graph.add("Relu", graph.add("BatchNormalization", data, *numbers, epsilon=norm.eps))
    data = graph.add("Flatten", graph.add("GlobalAveragePool", data), axis=1)
    head = network.head
    return graph, graph.add("Gemm", data, head.weight, head.bias, alpha=1.0, beta=1.0, transB=1)


def transformer_graph(network: Transformer) -> tuple[Graph, str]:
    """Return the graph of a trained network, and the name of its output."""
    graph = Graph()
    rows = graph.add("Squeeze", INPUT, np.array([1]))
    rows = graph.add("Add", graph.linear(rows, network.embed), network.places)
    for block in network.blocks:
        rows = _block_graph(graph, rows, block)  # type: ignore[arg-type]
    mean = graph.add("ReduceMean", rows, axes=[1], keepdims=0)
    return graph, graph.linear(mean, network.head)


def _block_graph(graph: Graph, rows: str, block: Block) -> str:
    x = graph.layer_norm(rows, block.first)
    heads = np.array([-1, 8, HEADS, WIDTH // HEADS])
    parts = [graph.add("Reshape", graph.linear(x, layer), heads) for layer in block.inputs]
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    query, key, value = (graph.add("Transpose", part, perm=order) for part, order in zip(parts, orders, strict=True))
    scores = graph.add("Mul", graph.add("MatMul", query, key), np.float32((WIDTH // HEADS) ** -0.5))
    merged = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), value)
    merged = graph.add("Reshape", graph.add("Transpose", merged, perm=[0, 2, 1, 3]), np.array([-1, 8, WIDTH]))
    rows = graph.add("Add", rows, graph.linear(merged, block.merge))
    hidden = graph.add("Relu", graph.linear(graph.layer_norm(rows, block.second), block.up))
    return graph.add("Add", rows, graph.linear(hidden, block.down))


def train(network: nn.Module, images: torch.Tensor, labels: torch.Tensor, *, epochs: int) -> None:
    """Train by Adam on batches of 64."""
    optimiser = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(epochs):
        for part in torch.randperm(len(images)).split(64):
            optimiser.zero_grad()
            functional.cross_entropy(network(images[part]), labels[part]).backward()
            optimiser.step()
    network.eval()


def accuracy(network: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Return the share of images that a network classifies right."""
    with torch.inference_mode():
        return float((network(images).argmax(1) == labels).float().mean())


def split_digits() -> Mapping[str, Any]:
    """Return images of 8 by 8 pixels from 0 to 1, and labels, each to train on and to test with."""
    digits = load_digits()
    images = (digits.images / 16).astype("float32")[:, None]
    parts = train_test_split(images, digits.target, test_size=512, random_state=0, stratify=digits.target)
    return dict(zip(("train", "test", "train_labels", "test_labels"), parts, strict=True))


def main(argv: Sequence[str] | None = None) -> None:
    """Train both networks, write them, and print their accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="(%(default)s)")
    options = parser.parse_args(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)  # batches of 64 small images gain nothing from more
    digits = split_digits()
    images, labels = (torch.from_numpy(digits[name]) for name in ("train", "train_labels"))
    tests, answers = (torch.from_numpy(digits[name]) for name in ("test", "test_labels"))
    for name, make, to_graph in (
        ("digits_conv", Convolutional, convolutional_graph),
        ("digits_transformer", Transformer, transformer_graph),
    ):
        torch.manual_seed(0)
        network = make()
        train(network, images, labels, epochs=options.epochs)
        graph, output = to_graph(network)  # type: ignore[operator]
        graph.save(output, options.folder / f"{name}.onnx")
        print(f"{name}: {100 * accuracy(network, tests, answers):.2f} % of {len(answers)} images by PyTorch")
    np.savez(options.folder / "digits.npz", **{INPUT: digits["test"], "labels": digits["test_labels"]})


if __name__ == "__main__":
    main()
