"""MobileNets: image networks made of depthwise separable convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from passsearch.frontends.zoo.builder import LINEAR_GAIN, GraphBuilder, Tensor

__all__ = ["inverted_residual", "mobilenet_v1_features", "mobilenet_v2"]

# (output channels, stride) of each separable convolution: Howard et al. (2017), table 1.
_V1_LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *(((512, 1),) * 5),
    (1024, 2),
    (1024, 1),
)
# (expansion, output channels, repeats, stride of the first) of each group: Sandler et al. (2018), table 2.
_V2_GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
_V2_BRANCH_SCALE = 0.4


def mobilenet_v2(
    *, batch: int = 1, size: int = 224, width_multiplier: float = 1.0, classes: int = 1000, seed: int = 0
) -> onnx.ModelProto:
    """Build MobileNetV2 as laid out in `torchvision/models/mobilenetv2.py`.

    Args:
        batch: Number of images.
        size: Height and width of the images in pixels.
        width_multiplier: Factor on the number of channels.
        classes: Number of logits per image.
        seed: Seed of the weights.

    Returns:
        A network from `image` (batch, 3, size, size) to `logits` (batch, classes).
    """
    graph = GraphBuilder("mobilenet_v2", seed=seed)
    image = graph.input("image", (batch, 3, size, size))
    x = _unit(graph, image, channels=_round_channels(32 * width_multiplier), kernel=3, stride=2)
    for expansion, channels, repeats, stride in _V2_GROUPS:
        out = _round_channels(channels * width_multiplier)
        for index in range(repeats):
            x = inverted_residual(graph, x, expansion=expansion, channels=out, stride=stride if index == 0 else 1)
    x = _unit(graph, x, channels=_round_channels(1280 * max(1.0, width_multiplier)))
    vector = graph.flatten(graph.global_average_pool(x))
    graph.output(graph.dense(vector, classes), "logits")
    return graph.finish()


def mobilenet_v1_features(graph: GraphBuilder, image: Tensor, *, taps: Sequence[int]) -> list[Tensor]:
    """Append MobileNetV1 without its classifier.

    Args:
        graph: The graph to extend.
        image: Input of shape (batch, 3, height, width).
        taps: Numbers of the separable convolutions whose outputs to return, counted from 1 to 13.
    """
    x = _unit(graph, image, channels=32, kernel=3, stride=2)
    outputs = []
    for channels, stride in _V1_LAYERS:
        x = _unit(graph, _depthwise(graph, x, stride=stride), channels=channels)
        outputs.append(x)
    return [outputs[tap - 1] for tap in taps]


def inverted_residual(graph: GraphBuilder, x: Tensor, *, expansion: int, channels: int, stride: int) -> Tensor:
    """Append the block of MobileNetV2."""
    shortcut = stride == 1 and x.shape[1] == channels
    hidden = x if expansion == 1 else _unit(graph, x, channels=x.shape[1] * expansion)
    hidden = _depthwise(graph, hidden, stride=stride)
    projection = graph.conv(hidden, channels, gain=LINEAR_GAIN)
    if not shortcut:
        return graph.batch_norm(projection)
    return graph.add(x, graph.batch_norm(projection, mean_scale=_V2_BRANCH_SCALE))


def _depthwise(graph: GraphBuilder, x: Tensor, *, stride: int) -> Tensor:
    return _unit(graph, x, channels=x.shape[1], kernel=3, stride=stride, groups=x.shape[1])


def _unit(
    graph: GraphBuilder, x: Tensor, *, channels: int, kernel: int = 1, stride: int = 1, groups: int = 1
) -> Tensor:
    """Append convolution, normalization and activation."""
    x = graph.conv(x, channels, kernel=kernel, stride=stride, groups=groups)
    return graph.relu6(graph.batch_norm(x))


def _round_channels(channels: float) -> int:
    """Round to a multiple of 8, down by a tenth at most; see `_make_divisible` in `torchvision/models/_utils.py`."""
    nearest = max(8, int(channels + 4) // 8 * 8)
    return nearest if nearest >= 0.9 * channels else nearest + 8
