"""Residual networks for image classification.

He et al., "Deep Residual Learning for Image Recognition" (2015), laid out as in `torchvision/models/resnet.py`: the
stride of a bottleneck sits on its 3x3 convolution ("v1.5").
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import LINEAR_GAIN, GraphBuilder, Tensor

__all__ = ["basic_block", "resnet", "resnet_features"]

_STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
_FIRST_BOTTLENECK_DEPTH = 50
_EXPANSION = 4
# With this factor a block adds about a sixth to the variance of its input. The deepest network has 33 blocks, and its
# variance stays below 200.
_BRANCH_SCALE = 0.4


def resnet(
    depth: int, *, batch: int = 1, size: int = 224, width: int = 64, classes: int = 1000, seed: int = 0
) -> onnx.ModelProto:
    """Build a residual network.

    Args:
        depth: Number of weighted layers: 18, 34, 50 or 101.
        batch: Number of images.
        size: Height and width of the images in pixels.
        width: Channels of the first stage; 64 in the paper.
        classes: Number of logits per image.
        seed: Seed of the weights.

    Returns:
        A network from `image` (batch, 3, size, size) to `logits` (batch, classes).

    Raises:
        UserError: The depth is not one of these.
    """
    if depth not in _STAGES:
        allowed = ", ".join(map(str, _STAGES))
        raise UserError(f"Unknown ResNet depth {depth}; choose one of {allowed}")
    graph = GraphBuilder(f"resnet{depth}", seed=seed)
    image = graph.input("image", (batch, 3, size, size))
    features = resnet_features(graph, image, depth=depth, width=width, strides=(1, 2, 2, 2))
    vector = graph.flatten(graph.global_average_pool(features))
    graph.output(graph.dense(vector, classes), "logits")
    return graph.finish()


def resnet_features(graph: GraphBuilder, image: Tensor, *, depth: int, width: int, strides: Sequence[int]) -> Tensor:
    """Append the stem and as many stages as there are strides."""
    x = graph.relu(graph.batch_norm(graph.conv(image, width, kernel=7, stride=2)))
    x = graph.max_pool(x, kernel=3, stride=2, padding=1)
    block = _bottleneck if depth >= _FIRST_BOTTLENECK_DEPTH else basic_block
    for stage, stride in enumerate(strides):
        for index in range(_STAGES[depth][stage]):
            x = block(graph, x, channels=width * 2**stage, stride=stride if index == 0 else 1)
    return x


def basic_block(graph: GraphBuilder, x: Tensor, *, channels: int, stride: int) -> Tensor:
    """Append the block of ResNet-18 and ResNet-34."""
    branch = graph.relu(graph.batch_norm(graph.conv(x, channels, kernel=3, stride=stride)))
    branch = graph.conv(branch, channels, kernel=3, gain=LINEAR_GAIN)
    return _join(graph, x, branch=branch, stride=stride)


def _bottleneck(graph: GraphBuilder, x: Tensor, *, channels: int, stride: int) -> Tensor:
    branch = graph.relu(graph.batch_norm(graph.conv(x, channels)))
    branch = graph.relu(graph.batch_norm(graph.conv(branch, channels, kernel=3, stride=stride)))
    branch = graph.conv(branch, channels * _EXPANSION, gain=LINEAR_GAIN)
    return _join(graph, x, branch=branch, stride=stride)


def _join(graph: GraphBuilder, x: Tensor, *, branch: Tensor, stride: int) -> Tensor:
    """Add the shortcut, projected where the shape changes, to the branch."""
    branch = graph.batch_norm(branch, mean_scale=_BRANCH_SCALE)
    if x.shape != branch.shape:
        x = graph.batch_norm(graph.conv(x, branch.shape[1], stride=stride, gain=LINEAR_GAIN))
    return graph.relu(graph.add(branch, x))
