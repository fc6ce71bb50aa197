"""Speech and sensor networks with recurrent layers, as ONNX with random weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

GATES, STATES = {"GRU": 3, "LSTM": 4, "RNN": 1}, {"GRU": 1, "LSTM": 2, "RNN": 1}


class _Network:
    """A network that grows by layers; each method returns the name of its result."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self._rng = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        """Return a random weight, small enough that activations do not saturate."""
        values = self._rng.normal(0, 1 / np.sqrt(shape[-1]), shape).astype("float32")
        return self.constant(values)

    def constant(self, values: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(values), f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        names = [f"t{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def recurrent(
        self, kind: str, x: str, width: int, hidden: int, *, both: bool = False, starts: tuple[str, ...] = ()
    ) -> tuple[str, list[str]]:
        """Return the sequence, [steps, batch, directions * hidden], and the last states."""
        ways, rows = 1 + both, GATES[kind] * hidden
        inputs = [x, self.weight(ways, rows, width), self.weight(ways, rows, hidden), self.weight(ways, 2 * rows)]
        inputs += ["", *starts] if starts else []
        settings = {"linear_before_reset": 1} if kind == "GRU" else {}
        y, *states = self.node(
            kind, *inputs, outputs=1 + STATES[kind], hidden_size=hidden,
            direction="bidirectional" if both else "forward", **settings,
        )  # fmt: skip
        moved = self.node("Transpose", y, perm=[0, 2, 1, 3])
        return self.node("Reshape", moved, self.constant(np.array([0, 0, -1]))), states

    def dense(self, x: str, width: int, units: int, activation: str = "") -> str:
        product = self.node("MatMul", x, self.weight(width, units))
        total = self.node("Add", product, self.weight(units))
        return str(self.node(activation, total)) if activation else str(total)

    def convolution(self, x: str, channels: int, kernels: int, *, size: list[int], stride: list[int]) -> str:
        pads = [each // 2 for each in size] * 2
        weight = self.weight(kernels, channels, *size)
        return str(self.node("Relu", self.node("Conv", x, weight, self.weight(kernels), strides=stride, pads=pads)))

    def last(self, x: str) -> str:
        """Return the last element of a sequence."""
        return str(self.node("Gather", x, self.constant(np.array(-1)), axis=0))

    def model(self, shape: list[int], output: str) -> onnx.ModelProto:
        inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model)


def _bidirectional_gru(steps: int = 80) -> onnx.ModelProto:
    net = _Network()
    y, _ = net.recurrent("GRU", "x", 64, 96, both=True)
    return net.model([steps, 1, 64], y)


def _voice_detection() -> onnx.ModelProto:
    net, x = _Network(), "x"
    for channels, kernels, stride in ((64, 128, 1), (128, 64, 2), (64, 64, 2), (64, 128, 1)):
        x = net.convolution(x, channels, kernels, size=[3], stride=[stride])
    y, _ = net.recurrent("LSTM", net.node("Transpose", x, perm=[2, 0, 1]), 128, 128)
    return net.model([1, 64, 96], net.dense(y, 128, 1, "Sigmoid"))


def _keyword_spotting() -> onnx.ModelProto:
    net = _Network()
    x = net.convolution("x", 40, 64, size=[5], stride=[2])
    y, _ = net.recurrent("GRU", net.node("Transpose", x, perm=[2, 0, 1]), 64, 128)
    return net.model([1, 40, 98], net.dense(net.last(y), 128, 12))


def _activity_recognition() -> onnx.ModelProto:
    net = _Network()
    y, _ = net.recurrent("LSTM", "x", 9, 64)
    y, _ = net.recurrent("LSTM", y, 64, 64)
    return net.model([128, 1, 9], net.dense(net.last(y), 64, 6))


def _tagger() -> onnx.ModelProto:
    net = _Network()
    y, _ = net.recurrent("LSTM", "x", 128, 128, both=True)
    return net.model([60, 1, 128], net.dense(y, 256, 20))


def _encoder_decoder() -> onnx.ModelProto:
    net = _Network()
    y, states = net.recurrent("LSTM", "x", 80, 256)
    z, _ = net.recurrent("LSTM", net.dense(y, 256, 64, "Tanh"), 64, 256, starts=tuple(states))
    return net.model([50, 1, 80], net.dense(z, 256, 100))


def _vibration_monitor() -> onnx.ModelProto:
    net = _Network()
    y, _ = net.recurrent("RNN", "x", 6, 64)
    return net.model([256, 1, 6], net.dense(net.last(y), 64, 4))


def _line_reader() -> onnx.ModelProto:
    net, x = _Network(), "x"
    for channels, kernels, stride in ((1, 32, [2, 2]), (32, 64, [2, 2]), (64, 128, [2, 1]), (128, 128, [2, 1])):
        x = net.convolution(x, channels, kernels, size=[3, 3], stride=stride)
    columns = net.node("Reshape", net.node("Transpose", x, perm=[3, 0, 1, 2]), net.constant(np.array([0, 0, -1])))
    y, _ = net.recurrent("LSTM", columns, 256, 128, both=True)
    y, _ = net.recurrent("LSTM", y, 256, 128, both=True)
    return net.model([1, 1, 32, 200], net.dense(y, 256, 96))


def _speech_recognition() -> onnx.ModelProto:
    net = _Network()
    x = net.convolution("x", 80, 256, size=[11], stride=[2])
    y = net.node("Transpose", x, perm=[2, 0, 1])
    for width in (256, 512, 512):
        y, _ = net.recurrent("GRU", y, width, 256, both=True)
    return net.model([1, 80, 200], net.dense(y, 512, 29))


def _noise_suppression() -> onnx.ModelProto:
    net = _Network()
    x = net.dense("x", 42, 24, "Tanh")
    voice, _ = net.recurrent("GRU", x, 24, 24)
    noise, _ = net.recurrent("GRU", net.node("Concat", x, voice, "x", axis=2), 90, 48)
    y, _ = net.recurrent("GRU", net.node("Concat", voice, noise, "x", axis=2), 114, 96)
    return net.model([100, 1, 42], net.dense(y, 96, 22, "Sigmoid"))


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "activity_recognition": _activity_recognition,
    "bidirectional_gru": _bidirectional_gru,
    "encoder_decoder": _encoder_decoder,
    "keyword_spotting": _keyword_spotting,
    "line_reader": _line_reader,
    "noise_suppression": _noise_suppression,
    "speech_recognition": _speech_recognition,
    "tagger": _tagger,
    "vibration_monitor": _vibration_monitor,
    "voice_detection": _voice_detection,
}
"""The networks by name."""

LONG = "bidirectional_gru_800"
"""A network of ten times as many steps, which is to be compiled as quickly."""


def write_network(name: str, folder: Path) -> Path:
    """Write a network into a folder, and return its file."""
    model = _bidirectional_gru(800) if name == LONG else NETWORKS[name]()
    file = folder / f"{name}.onnx"
    onnx.save(model, str(file))
    return file
