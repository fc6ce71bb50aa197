"""Measures what ``ExpandNorms`` gives networks whose norms are one operator, as frameworks export them today.

``python benchmarks/norms.py FOLDER`` writes the networks there, and measures a sequence of the catalog with and without
the pass, ONNX Runtime and OpenVINO in turns. Without a folder it prints the JSON. Four minutes.

* ``encoder``: the twelve encoder layers of BERT-base on 128 tokens, with 24 layer norms.
* ``images``: six 3 by 3 convolutions of 64 channels on images of 128 by 128, each with an instance norm and a ReLU.
"""

from pathlib import Path

import numpy as np
import onnx
import with_and_without

from passsearch.frontends.zoo.builder import GraphBuilder, Tensor
from passsearch.frontends.zoo.transformer import encoder_layer

RESULTS = Path(__file__).parent / "results" / "relax" / "norms.json"
OPSET = 17


class OperatorNorms(GraphBuilder):
    """A builder that writes a norm as one operator."""

    def layer_norm(self, x: Tensor, *, epsilon: float = 1e-12) -> Tensor:
        """Append a layer normalization over the last dimension."""
        return self._norm("LayerNormalization", x, features=x.shape[-1], axis=-1, epsilon=epsilon)

    def instance_norm(self, x: Tensor) -> Tensor:
        """Append a normalization of each channel of each image."""
        return self._norm("InstanceNormalization", x, features=x.shape[1], epsilon=1e-5)

    def _norm(self, op: str, x: Tensor, *, features: int, **attributes: float) -> Tensor:
        scale = self.uniform("norm_scale", (features,), low=0.9, high=1.1)
        shift = self.normal("norm_shift", (features,), deviation=0.1)
        return self.node(op, [x, scale, shift], shape=x.shape, **attributes)

    def finish(self) -> onnx.ModelProto:
        """Return the finished network, in an operator set that has layer norms."""
        model = super().finish()
        model.opset_import[0].version = OPSET
        return model


def encoder(*, layers: int = 12, tokens: int = 128, hidden: int = 768, heads: int = 12) -> onnx.ModelProto:
    """Return encoder layers of BERT."""
    graph = OperatorNorms("encoder")
    x = graph.input("features", (1, tokens, hidden))
    bias = graph.initializer("mask", np.zeros((1, 1, 1, tokens), np.float32))
    for _ in range(layers):
        x = encoder_layer(graph, x, bias=bias, heads=heads)
    graph.output(x, "result")
    return graph.finish()


def images(*, layers: int = 6, channels: int = 64, size: int = 128) -> onnx.ModelProto:
    """Return convolutions with instance norms."""
    graph = OperatorNorms("images")
    x = graph.input("image", (1, channels, size, size))
    for _ in range(layers):
        x = graph.relu(graph.instance_norm(graph.conv(x, channels, kernel=3)))
    graph.output(x, "result")
    return graph.finish()


NETWORKS = {"encoder": (encoder, "schedule-cpu"), "images": (images, "winograd-schedule-cpu")}


if __name__ == "__main__":
    with_and_without.main(__doc__.splitlines()[0], NETWORKS, without="ExpandNorms", results=RESULTS)
