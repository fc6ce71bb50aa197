"""Plain stacks of convolutions for image classification.

Simonyan and Zisserman, "Very Deep Convolutional Networks for Large-Scale Image Recognition" (2015), laid out as in
`torchvision/models/vgg.py` without batch normalization.
"""

from __future__ import annotations

import onnx

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import RELU_GAIN, GraphBuilder

__all__ = ["vgg"]

# Convolutions of each stage: table 1 of the paper, columns A, B, D and E.
_STAGES = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDEST = 8
"""Channels of the last two stages, as a multiple of those of the first."""


def vgg(
    depth: int,
    *,
    batch: int = 1,
    size: int = 224,
    width: int = 64,
    hidden: int = 4096,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a VGG network.

    Args:
        depth: Number of weighted layers: 11, 13, 16 or 19.
        batch: Number of images.
        size: Height and width of the images in pixels, a multiple of 32.
        width: Channels of the first stage; 64 in the paper.
        hidden: Size of the two hidden layers of the classifier.
        classes: Number of logits per image.
        seed: Seed of the weights.

    Returns:
        A network from `image` (batch, 3, size, size) to `logits` (batch, classes).

    Raises:
        UserError: The depth is not one of these.
    """
    if depth not in _STAGES:
        raise UserError(f"Unknown VGG depth {depth}; choose one of {', '.join(map(str, _STAGES))}")
    graph = GraphBuilder(f"vgg{depth}", seed=seed)
    x = graph.input("image", (batch, 3, size, size))
    for stage, convolutions in enumerate(_STAGES[depth]):
        for _ in range(convolutions):
            x = graph.relu(graph.conv(x, width * min(2**stage, _WIDEST), kernel=3, bias=True))
        x = graph.max_pool(x, kernel=2, stride=2, padding=0)
    x = graph.flatten(x)
    for _ in range(2):
        x = graph.relu(graph.dense(x, hidden, gain=RELU_GAIN))
    graph.output(graph.dense(x, classes), "logits")
    return graph.finish()
