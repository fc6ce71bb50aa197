"""SSD300 on ResNet-50 in PyTorch, with the head of NVIDIA's reference implementation.

Source: Liu et al., SSD: Single Shot MultiBox Detector, ECCV 2016; the changes to it are those that NVIDIA's
DeepLearningExamples describe for SSD300 v1.1: backbone up to conv4 whose last stage has stride 1, five more blocks.
"""

import torch
from torch import Tensor, nn

CLASSES = 81
"""Of COCO, background included."""

BOXES = (4, 6, 6, 6, 4, 4)
"""Default boxes at each place of the six feature maps."""

MIDDLE = (256, 256, 128, 128, 128)
STRIDED = (True, True, True, False, False)
CHANNELS = (1024, 512, 512, 256, 256, 256)


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 with a residual add; the stride stands in the 3x3, as in torchvision's ResNet."""

    def __init__(self, inputs: int, width: int, *, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            *_convolved(inputs, width, kernel=1),
            nn.ReLU(inplace=True),
            *_convolved(width, width, kernel=3, stride=stride, padding=1),
            nn.ReLU(inplace=True),
            *_convolved(width, outputs, kernel=1),
        )
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolved(inputs, outputs, kernel=1, stride=stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, data: Tensor) -> Tensor:
        """(batch, inputs, height, width) → (batch, 4 · width, height / stride, width / stride)."""
        return self.relu(self.body(data) + self.shortcut(data))


class SSD300(nn.Module):
    """Offsets and scores of 8732 default boxes for images of 300 by 300; decoding and suppression come after it."""

    def __init__(self) -> None:
        super().__init__()
        stem = (*_convolved(3, 64, kernel=7, stride=2, padding=3), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
        # The third stage keeps 38 by 38 places: NVIDIA's change to the backbone.
        stages = (*_stage(64, 64, blocks=3, stride=1), *_stage(256, 128, blocks=4, stride=2))
        self.backbone = nn.Sequential(*stem, *stages, *_stage(512, 256, blocks=6, stride=1))
        steps = zip(CHANNELS[:-1], CHANNELS[1:], MIDDLE, STRIDED, strict=True)
        self.additional = nn.ModuleList(
            _shrink(a, b, middle=middle, strided=strided) for a, b, middle, strided in steps
        )
        heads = list(zip(CHANNELS, BOXES, strict=True))
        self.offsets = nn.ModuleList(nn.Conv2d(size, boxes * 4, 3, padding=1) for size, boxes in heads)
        self.scores = nn.ModuleList(nn.Conv2d(size, boxes * CLASSES, 3, padding=1) for size, boxes in heads)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, 300, 300) → offsets (batch, 4, 8732) and scores (batch, 81, 8732)."""
        maps = [self.backbone(image)]
        for block in self.additional:
            maps.append(block(maps[-1]))
        offsets = [head(each).reshape(image.shape[0], 4, -1) for head, each in zip(self.offsets, maps, strict=True)]
        scores = [head(each).reshape(image.shape[0], CLASSES, -1) for head, each in zip(self.scores, maps, strict=True)]
        return torch.cat(offsets, 2), torch.cat(scores, 2)


def _stage(inputs: int, width: int, *, blocks: int, stride: int) -> list[nn.Module]:
    rest = [Bottleneck(4 * width, width, stride=1) for _ in range(blocks - 1)]
    return [Bottleneck(inputs, width, stride=stride), *rest]


def _shrink(inputs: int, outputs: int, *, middle: int, strided: bool) -> nn.Sequential:
    """The next smaller feature map: half the places by a stride, or two fewer by no padding."""
    how = {"stride": 2, "padding": 1} if strided else {}
    first = (*_convolved(inputs, middle, kernel=1), nn.ReLU(inplace=True))
    return nn.Sequential(*first, *_convolved(middle, outputs, kernel=3, **how), nn.ReLU(inplace=True))


def _convolved(inputs: int, outputs: int, *, kernel: int, stride: int = 1, padding: int = 0) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride=stride, padding=padding, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]
