"""Trains small networks on scikit-learn's digits and writes them as ONNX: ``python trained_digits.py FOLDER``.

A script for an interpreter with PyTorch and scikit-learn; ``trained_networks`` runs it. ``samples.npz`` gets the images
by which a precision is decided, with their labels, and ``test.npz`` those by which it is judged. No network has seen
either.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

SEED, TRAINED, SAMPLES = 0, 1000, 400
EPOCHS, BATCH = 20, 50


class Encoder(nn.Module):
    """A transformer whose tokens are the rows of an image."""

    def __init__(self) -> None:
        """Make two layers of 128 numbers a token."""
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True)
        self.inputs, self.layers = nn.Linear(8, 128), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.places, self.classes = nn.Parameter(0.02 * torch.randn(8, 128)), nn.Linear(128, 10)

    def forward(self, images: Any) -> Any:
        """Return the scores of each class."""
        return self.classes(self.layers(self.inputs(images[:, 0]) + self.places).mean(1))


def networks() -> dict[str, Any]:
    """Return the networks by name."""
    products = [nn.Flatten(), nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    convolutions = [nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()]
    head = [nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 10)]
    return {
        "products": nn.Sequential(*products),
        "convolutions": nn.Sequential(*convolutions, *head),
        "encoder": Encoder(),
    }


def train(network: Any, images: Any, labels: Any) -> Any:
    """Train a network and return it in inference mode."""
    steps = torch.optim.Adam(network.parameters(), lr=1e-3)
    for _ in range(EPOCHS):
        for places in torch.randperm(len(images)).split(BATCH):
            steps.zero_grad()
            nn.functional.cross_entropy(network(images[places]), labels[places]).backward()
            steps.step()
    return network.eval()


def main(folder: Path) -> None:
    """Write networks, samples and test images."""
    torch.manual_seed(SEED)
    data = load_digits()
    order = np.random.default_rng(SEED).permutation(len(data.target))
    images = torch.from_numpy(data.images[order, None].astype("float32") / 16)
    labels = torch.from_numpy(data.target[order].astype("int64"))
    ends = {"samples": slice(TRAINED, TRAINED + SAMPLES), "test": slice(TRAINED + SAMPLES, None)}
    for name, part in ends.items():
        np.savez(folder / f"{name}.npz", x=images[part, None].numpy(), labels=labels[part].numpy())
    for name, network in networks().items():
        trained = train(network, images[:TRAINED], labels[:TRAINED])
        with torch.no_grad():
            names = {"input_names": ["x"], "output_names": ["scores"]}
            torch.onnx.export(
                trained, (images[:1],), str(folder / f"{name}.onnx"), dynamo=True, external_data=False, **names
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
