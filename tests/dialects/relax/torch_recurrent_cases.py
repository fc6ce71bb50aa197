"""Imports PyTorch's recurrent layers, runs them, and prints one JSON line for each.

A script for an interpreter with TVM's Relax and PyTorch: ``test_recurrent_layers.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import passsearch.dialects.relax.quick_import  # isort: skip  # noqa: F401  # before TVM is imported
import torch
import tvm
from torch import nn
from tvm import relax

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.exported_program import read
from passsearch.dialects.relax.recurrence.cell import recurrences
from passsearch.standalone.relax.deployment.lowering import lower

TARGET = tvm.target.Target({"kind": "llvm"})
STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 6, 10


class Layers(nn.Module):
    """Recurrent layers that return all they have."""

    def __init__(self, kind: str, **settings: Any) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(WIDTH, HIDDEN, **settings)

    def forward(self, x: Any, *states: Any) -> Any:
        state = states if len(states) > 1 else next(iter(states), None)
        y, ends = self.layers(x, state)
        return (y, *ends) if isinstance(ends, tuple) else (y, ends)


def cases() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a kind of layers with its settings."""
    for kind in ("LSTM", "GRU", "RNN"):
        yield kind, {}
        yield kind, {"bidirectional": True, "batch_first": True}
        yield kind, {"num_layers": 2, "bidirectional": True, "bias": False}
        yield kind, {"num_layers": 2, "batch_first": True}
    yield "RNN", {"nonlinearity": "relu"}
    # It projects its state, and becomes a step of operators for each element, as in TVM's own importer.
    yield "LSTM", {"proj_size": 4}


def run(layers: Layers, inputs: Sequence[Any]) -> dict[str, Any]:
    """Return how many of the imported functions are loops over steps, and the largest difference from PyTorch."""
    program = torch.export.export(layers, tuple(inputs))  # it fixes the number of steps, whatever is asked of it
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layers.pt2"
        torch.export.save(program, path)
        names = ["x", *(f"state{place}" for place in range(len(inputs) - 1))]
        types = {name: TensorType(tuple(each.shape), "float32") for name, each in zip(names, inputs, strict=True)}
        module = read(ModelSource(path=path, format="exported", inputs=types))
    with TARGET:
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    results = relax.VirtualMachine(library, tvm.cpu())["main"](*(tvm.runtime.tensor(each.numpy()) for each in inputs))
    pairs = zip([each.numpy() for each in results], layers(*inputs), strict=True)
    error = max(float(np.abs(mine - right.detach().numpy()).max()) for mine, right in pairs)
    return {"loops": len(recurrences(module)), "error": error}


def of_buffers(layers: Layers) -> Layers:
    """Make buffers that are not persistent of the weights."""
    own = layers.layers
    for name, weight in list(own.named_parameters()):
        delattr(own, name)
        own.register_buffer(name, weight.detach(), persistent=False)
        setattr(own, name, weight.detach())  # the layer notes its weights in a list only so
    return layers


def main() -> None:
    for kind, settings in cases():
        for has_state in (True, False):
            torch.manual_seed(0)
            layers = Layers(kind, **settings).eval()
            is_batch_first = layers.layers.batch_first
            x = torch.randn(BATCH, STEPS, WIDTH) if is_batch_first else torch.randn(STEPS, BATCH, WIDTH)
            count = layers.layers.num_layers * (2 if layers.layers.bidirectional else 1)
            sizes = [layers.layers.proj_size or HIDDEN, HIDDEN][: 2 if kind == "LSTM" else 1]
            states = [torch.randn(count, BATCH, size) for size in sizes if has_state]
            print(json.dumps({"case": f"{kind} {settings} {has_state}", **run(layers, [x, *states])}), flush=True)
    result = run(of_buffers(Layers("GRU").eval()), [torch.randn(STEPS, BATCH, WIDTH)])
    print(json.dumps({"case": "GRU of buffers", **result}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
