"""The U-Net, which labels every pixel of an image.

Ronneberger et al., "U-Net: Convolutional Networks for Biomedical Image Segmentation" (2015), with padded convolutions
and batch norms, as it is used today. Its maps grow again by transposed convolutions.
"""

from __future__ import annotations

import onnx

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import LINEAR_GAIN, GraphBuilder, Tensor

__all__ = ["unet"]

_LEVELS = 4
"""Times that a map is halved, and doubled again."""


def unet(*, batch: int = 1, size: int = 256, width: int = 32, classes: int = 2, seed: int = 0) -> onnx.ModelProto:
    """Build a U-Net for segmentation.

    Args:
        batch: Number of images.
        size: Height and width of the images in pixels, a multiple of 16.
        width: Channels at full size; 64 in the paper.
        classes: Number of logits per pixel.
        seed: Seed of the weights.

    Returns:
        A network from float32 `image` (batch, 3, size, size) to `logits` (batch, classes, size, size).

    Raises:
        UserError: The size is not a multiple of 16.
    """
    if size % 2**_LEVELS:
        raise UserError(f"Image size must be a multiple of {2**_LEVELS}, got {size}; give for example 256")
    graph = GraphBuilder("unet", seed=seed)
    x = graph.input("image", (batch, 3, size, size))
    skipped = []
    for level in range(_LEVELS):
        x = _double_conv(graph, x, width * 2**level)
        skipped.append(x)
        x = graph.max_pool(x, kernel=2, stride=2, padding=0)
    x = _double_conv(graph, x, width * 2**_LEVELS)
    for skip in reversed(skipped):
        x = graph.conv_transpose(x, skip.shape[1], kernel=2, stride=2)
        x = _double_conv(graph, graph.concat([skip, x], axis=1), skip.shape[1])
    graph.output(graph.conv(x, classes, bias=True, gain=LINEAR_GAIN), "logits")
    return graph.finish()


def _double_conv(graph: GraphBuilder, x: Tensor, channels: int) -> Tensor:
    for _ in range(2):
        x = graph.relu(graph.batch_norm(graph.conv(x, channels, kernel=3)))
    return x
