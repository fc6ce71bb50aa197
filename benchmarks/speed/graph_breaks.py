"""Modules that ``torch.compile`` cuts into several graphs, each for another reason."""

from typing import Any

import torch
from torch import nn


def _block(channels: int, others: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, others, 3, padding=1), nn.BatchNorm2d(others), nn.ReLU())


class Branch(nn.Module):
    """A branch on a value between convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.other = _block(3, 32), _block(32, 32), _block(32, 32)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Return features."""
        features = self.first(image)
        return self.second(features) if features.mean() > 0 else self.other(features)


class Logged(nn.Module):
    """A line is printed between dense layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(4))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows."""
        for layer in self.layers:
            rows = torch.relu(layer(rows)) + rows
            print(end="")
        return rows


class Scaled(nn.Module):
    """A number of Python is made of a tensor, and used."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 1024), nn.Linear(1024, 256)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows."""
        hidden = nn.functional.gelu(self.first(rows))
        largest = hidden.abs().max().item()
        return self.second(hidden / max(largest, 1.0)) + rows


class Nested(nn.Module):
    """Mappings and lists go from one graph to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(256, 8, batch_first=True)
        self.norm, self.dense = nn.LayerNorm(256), nn.Linear(256, 256)

    def forward(self, tokens: torch.Tensor) -> dict[str, Any]:
        """Return tokens, their mean and the weights of attention."""
        mixed, weights = self.attention(tokens, tokens, tokens)
        state = {"tokens": self.norm(tokens + mixed), "weights": [weights]}
        torch._dynamo.graph_break()
        return {"tokens": self.dense(state["tokens"]) + state["tokens"], "mean": state["tokens"].mean(1), **state}


class EarlyExit(nn.Module):
    """A loop that ends when a value is reached."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows."""
        for _ in range(3):
            rows = rows + self.layer(rows)
            if rows.norm() > 1e6:
                break
        return rows


class Sorted(nn.Module):
    """Python sorts values of a tensor between two parts."""

    def __init__(self) -> None:
        super().__init__()
        self.scores, self.dense = nn.Linear(128, 1), nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 128))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the best rows."""
        scores = torch.sigmoid(self.scores(nn.functional.layer_norm(rows, [128]))).squeeze(-1)
        order = sorted(range(len(rows)), key=scores.tolist().__getitem__, reverse=True)
        return self.dense(rows[order[:16]])


MODULES: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "branch": (Branch, (1, 3, 64, 64)),
    "logged": (Logged, (16, 512)),
    "scaled": (Scaled, (32, 256)),
    "nested": (Nested, (1, 64, 256)),
    "early_exit": (EarlyExit, (16, 512)),
    "sorted": (Sorted, (64, 128)),
}
"""Class and shape of the input, by name."""


def module_of(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return a module in inference mode with random weights, and its input."""
    torch.manual_seed(0)
    kind, shape = MODULES[name]
    return kind().eval(), torch.randn(shape)
