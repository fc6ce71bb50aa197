"""Single-shot object detectors: Liu et al., "SSD: Single Shot MultiBox Detector" (2016).

The networks end at raw box offsets and class scores; decoding and non-maximum suppression are left to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx

from passsearch.frontends.zoo.builder import HEAD_GAIN, GraphBuilder, Tensor
from passsearch.frontends.zoo.mobilenet import mobilenet_v1_features
from passsearch.frontends.zoo.resnet import resnet_features

__all__ = ["ssd_mobilenet", "ssd_resnet50"]

_RESNET_ANCHORS = (4, 6, 6, 6, 4, 4)
# (hidden channels, output channels, stride, padding) of each additional feature map.
_RESNET_EXTRAS = ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
_MOBILENET_ANCHORS = (3, 6, 6, 6, 6, 6)
_MOBILENET_EXTRAS = ((256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 2, 1), (64, 128, 2, 1))


def ssd_resnet50(*, batch: int = 1, classes: int = 81, width: int = 64, seed: int = 0) -> onnx.ModelProto:
    """Build SSD300 on ResNet-50, as in NVIDIA's `DeepLearningExamples/PyTorch/Detection/SSD/ssd/model.py`.

    The backbone ends after its third stage, whose stride is 1, so that the first feature map is 38x38.

    Args:
        batch: Number of images of 300x300 pixels.
        classes: Number of classes, background included.
        width: Channels of the first stage of the backbone; 64 in the original.
        seed: Seed of the weights.

    Returns:
        A network from `image` (batch, 3, 300, 300) to `boxes` (batch, 8732, 4) and `scores` (batch, 8732, classes).
    """
    graph = GraphBuilder("ssd_resnet50", seed=seed)
    image = graph.input("image", (batch, 3, 300, 300))
    features = [resnet_features(graph, image, depth=50, width=width, strides=(1, 2, 1))]
    for hidden, channels, stride, padding in _RESNET_EXTRAS:
        x = graph.relu(graph.batch_norm(graph.conv(features[-1], hidden)))
        x = graph.conv(x, channels, kernel=3, stride=stride, padding=padding)
        features.append(graph.relu(graph.batch_norm(x)))
    boxes = _predict(graph, features, anchors=_RESNET_ANCHORS, values=4, kernel=3)
    scores = _predict(graph, features, anchors=_RESNET_ANCHORS, values=classes, kernel=3)
    return _detections(graph, boxes, scores=scores, activation=graph.softmax)


def ssd_mobilenet(*, batch: int = 1, classes: int = 91, seed: int = 0) -> onnx.ModelProto:
    """Build SSD300 on MobileNetV1, as in TensorFlow's `ssd_mobilenet_v1_coco`: 1x1 heads and sigmoid scores.

    Args:
        batch: Number of images of 300x300 pixels.
        classes: Number of classes, background included.
        seed: Seed of the weights.

    Returns:
        A network from `image` (batch, 3, 300, 300) to `boxes` (batch, 1917, 4) and `scores` (batch, 1917, classes).
    """
    graph = GraphBuilder("ssd_mobilenet", seed=seed)
    image = graph.input("image", (batch, 3, 300, 300))
    features = mobilenet_v1_features(graph, image, taps=(11, 13))
    for hidden, channels, stride, padding in _MOBILENET_EXTRAS:
        x = graph.relu6(graph.batch_norm(graph.conv(features[-1], hidden)))
        x = graph.conv(x, channels, kernel=3, stride=stride, padding=padding)
        features.append(graph.relu6(graph.batch_norm(x)))
    boxes = _predict(graph, features, anchors=_MOBILENET_ANCHORS, values=4, kernel=1)
    scores = _predict(graph, features, anchors=_MOBILENET_ANCHORS, values=classes, kernel=1)
    return _detections(graph, boxes, scores=scores, activation=graph.sigmoid)


def _predict(
    graph: GraphBuilder, features: Sequence[Tensor], *, anchors: Sequence[int], values: int, kernel: int
) -> Tensor:
    """Append one head per feature map and join them to (batch, anchors of all maps, values)."""
    parts = []
    for x, count in zip(features, anchors, strict=True):
        head = graph.conv(x, count * values, kernel=kernel, bias=True, gain=HEAD_GAIN)
        batch, _, height, width = head.shape
        parts.append(graph.reshape(graph.transpose(head, (0, 2, 3, 1)), (batch, height * width * count, values)))
    return graph.concat(parts, axis=1)


def _detections(
    graph: GraphBuilder, boxes: Tensor, *, scores: Tensor, activation: Callable[[Tensor], Tensor]
) -> onnx.ModelProto:
    graph.output(boxes, "boxes")
    graph.output(activation(scores), "scores")
    return graph.finish()
