"""Networks of one block, repeated: how time and compile time grow with depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx

from passsearch.frontends.zoo.builder import GraphBuilder, Tensor
from passsearch.frontends.zoo.mobilenet import inverted_residual
from passsearch.frontends.zoo.resnet import basic_block
from passsearch.frontends.zoo.transformer import encoder_layer

__all__ = ["repeated_block"]

_HIDDEN, _TOKENS, _HEADS = 384, 64, 6


def repeated_block(block: str, times: int, *, batch: int = 1, seed: int = 0) -> onnx.ModelProto:
    """Build a network of nothing but one block, so many times, each with weights of its own.

    Args:
        block: ``residual`` (ResNet-18, 64 channels, 56 by 56 pixels), ``depthwise`` (MobileNetV2, 96 channels, 14 by 14
            pixels) or ``encoder`` (BERT, width 384, 64 tokens).
        times: Number of repeats.
        batch: Number of inputs.
        seed: Seed of the weights.

    Returns:
        A network from `features` to `result`, which have one shape.
    """
    append, shape = _BLOCKS[block]
    graph = GraphBuilder(f"{block}_x{times}", seed=seed)
    x = graph.input("features", (batch, *shape))
    for _ in range(times):
        x = append(graph, x)
    graph.output(x, "result")
    return graph.finish()


def _residual(graph: GraphBuilder, x: Tensor) -> Tensor:
    return basic_block(graph, x, channels=x.shape[1], stride=1)


def _depthwise(graph: GraphBuilder, x: Tensor) -> Tensor:
    return inverted_residual(graph, x, expansion=6, channels=x.shape[1], stride=1)


def _encoder(graph: GraphBuilder, x: Tensor) -> Tensor:
    bias = graph.initializer("bias", np.zeros((1, 1, 1, _TOKENS), dtype=np.float32))
    return encoder_layer(graph, x, bias=bias, heads=_HEADS)


_BLOCKS: Mapping[str, tuple[Callable[[GraphBuilder, Tensor], Tensor], tuple[int, ...]]] = {
    "residual": (_residual, (64, 56, 56)),
    "depthwise": (_depthwise, (96, 14, 14)),
    "encoder": (_encoder, (_TOKENS, _HIDDEN)),
}
