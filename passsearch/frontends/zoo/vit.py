"""The vision transformer, a transformer on the patches of an image.

Dosovitskiy et al., "An Image is Worth 16x16 Words: Transformers for Image Recognition at Scale" (2020). The graph
follows `ViTForImageClassification` in `transformers/models/vit/modeling_vit.py`, with layers as in BERT's graph.
"""

from __future__ import annotations

import numpy as np
import onnx

from passsearch.errors import UserError
from passsearch.frontends.zoo.builder import LINEAR_GAIN, RELU_GAIN, GraphBuilder, Tensor
from passsearch.frontends.zoo.transformer import attention, gelu

__all__ = ["vit"]

_CHANNELS = 3
# Small, because only attention passes information from the patches to the token of the class.
_EMBEDDING = 0.02


def vit(
    *,
    batch: int = 1,
    layers: int = 12,
    hidden: int = 768,
    heads: int = 12,
    size: int = 224,
    patch: int = 16,
    classes: int = 1000,
    seed: int = 0,
) -> onnx.ModelProto:
    """Build a vision transformer for classification; the defaults are ViT-B/16.

    An image has a token for each patch and one for its class: 197 by default, a prime number.

    Args:
        batch: Number of images.
        layers: Number of encoder layers.
        hidden: Width of the encoder, a multiple of `heads`.
        heads: Number of attention heads.
        size: Height and width of an image in pixels, a multiple of `patch`.
        patch: Height and width of a patch in pixels.
        classes: Number of classes.
        seed: Seed of the weights.

    Returns:
        A network from float32 `image` (batch, 3, size, size) to `logits` (batch, classes).

    Raises:
        UserError: `hidden` is not a multiple of `heads`, or `size` of `patch`.
    """
    for name, value, part in (("Hidden size", hidden, heads), ("Image size", size, patch)):
        if value % part:
            raise UserError(f"{name} must be a multiple of {part}, got {value}; give for example {8 * part}")
    graph = GraphBuilder("vit", seed=seed)
    image = graph.input("image", (batch, _CHANNELS, size, size))
    x = _tokens(graph, image, hidden=hidden, patch=patch)
    for _ in range(layers):
        x = _layer(graph, x, heads=heads)
    x = graph.layer_norm(x)
    place = graph.initializer("place", np.asarray(0, dtype=np.int64))
    first = graph.node("Gather", [x, place], shape=(batch, hidden), axis=1)
    graph.output(graph.dense(first, classes, gain=LINEAR_GAIN), "logits")
    return graph.finish()


def _tokens(graph: GraphBuilder, image: Tensor, *, hidden: int, patch: int) -> Tensor:
    """Append the tokens of an image with their places, (batch, 1 + patches, hidden)."""
    batch = image.shape[0]
    patches = graph.conv(image, hidden, kernel=patch, stride=patch, padding=0, bias=True, gain=LINEAR_GAIN)
    count = patches.shape[2] * patches.shape[3]
    patches = graph.transpose(graph.reshape(patches, (batch, hidden, count)), (0, 2, 1))
    class_token = graph.normal("class_token", (1, 1, hidden), deviation=_EMBEDDING)
    class_token = graph.node("Expand", [class_token, graph.integers((batch, 1, hidden))], shape=(batch, 1, hidden))
    tokens = graph.concat([class_token, patches], axis=1)
    return graph.add(tokens, graph.normal("places", (1, count + 1, hidden), deviation=_EMBEDDING))


def _layer(graph: GraphBuilder, x: Tensor, *, heads: int) -> Tensor:
    norm = graph.layer_norm(x)
    parts = (graph.linear(norm, x.shape[-1]) for _ in range(3))
    x = graph.add(attention(graph, parts, heads=heads), x)
    intermediate = gelu(graph, graph.linear(graph.layer_norm(x), 4 * x.shape[-1], gain=RELU_GAIN))
    return graph.add(graph.linear(intermediate, x.shape[-1]), x)
