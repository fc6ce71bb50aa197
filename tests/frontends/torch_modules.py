"""Small PyTorch modules of kinds that transformers does not have."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def _block(inputs: int, outputs: int, **options: Any) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1, **options), nn.BatchNorm2d(outputs), nn.ReLU())


class DenselyConnected(nn.Module):
    """Every block reads the outputs of all earlier ones (DenseNet)."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(_block(3 + 8 * index, 8) for index in range(4))
        self.classes = nn.Linear(35, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            image = torch.cat([image, block(image)], 1)
        return self.classes(nn.functional.adaptive_avg_pool2d(image, 1).flatten(1))


class UNet(nn.Module):
    """Down, up by bilinear interpolation to the size of the other branch, and a connection across."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.low, self.last = _block(3, 8), _block(8, 16), _block(24, 8)
        self.up = nn.ConvTranspose2d(16, 16, 2, stride=2)
        self.mask = nn.Conv2d(8, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.first(image)
        low = self.up(self.low(nn.functional.max_pool2d(first, 4)))
        low = nn.functional.interpolate(low, size=first.shape[2:], mode="bilinear", align_corners=False)
        return self.mask(self.last(torch.cat([first, low], 1))).softmax(1)


class ShuffleUnit(nn.Module):
    """Half of the channels through grouped convolutions, then a shuffle (ShuffleNet V2)."""

    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Hardswish())

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        left, right = image.chunk(2, 1)
        joined = torch.cat([left, self.branch(right)], 1)
        batch, channels, height, width = joined.shape
        return joined.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(joined.shape)


class Recurrent(nn.Module):
    """A bidirectional LSTM and a GRU over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 8, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.classes = nn.Linear(8, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        steps, _ = self.gru(self.lstm(self.table(tokens))[0])
        return self.classes(steps[:, -1])


class Recommender(nn.Module):
    """Numbers and categories, their pairwise products, and a score (DLRM)."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20, 8) for _ in range(3))
        self.bottom = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))
        self.top = nn.Sequential(nn.Linear(8 + 6, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
        rows, columns = torch.tril_indices(4, 4, offset=-1)
        self.register_buffer("rows", rows)
        self.register_buffer("columns", columns)

    def forward(self, numbers: torch.Tensor, categories: torch.Tensor) -> torch.Tensor:
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *(table(categories[:, index]) for index, table in enumerate(self.tables))], 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat([dense, products[:, self.rows, self.columns]], 1))


class EncoderLayer(nn.Module):
    """PyTorch's own encoder layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, dim_feedforward=64, batch_first=True, activation="gelu")

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.layer(sequence)
