"""Imports modules that PyTorch's ``pt2e`` could have quantised, with scales and zero points of all kinds.

A script for an interpreter with TVM's Relax and PyTorch: ``test_torch_quantized.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import passsearch.dialects.relax.quick_import  # isort: skip  # noqa: F401  # before TVM is imported
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
from integer_cases import TARGET, outputs
from torch import nn

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importer import load
from passsearch.errors import UserError

quantized = torch.ops.quantized_decomposed
BYTES = (-128, 127, torch.int8)
SCALES, ZEROS = [0.02, 0.03, 0.04, 0.05], [0, 3, -5, 127]


class PerChannel(nn.Module):
    """Rounds its input in steps that are different in each column."""

    def __init__(self, scales: Any = SCALES, zeros: Any = ZEROS, *, persistent: bool = False) -> None:
        super().__init__()
        self.register_buffer("scales", torch.tensor(scales), persistent=persistent)
        self.register_buffer("zeros", torch.tensor(zeros), persistent=persistent)

    def forward(self, x: Any) -> Any:
        x = quantized.quantize_per_channel(x, self.scales, self.zeros, 1, *BYTES)
        return quantized.dequantize_per_channel(x, self.scales, self.zeros, 1, *BYTES)


class Attributes(PerChannel):
    """Has no buffers."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.scales, self.zeros = torch.tensor(SCALES), torch.tensor(ZEROS)


class InCode(PerChannel):
    """Makes its scales when it runs: copies of constants."""

    def __init__(self) -> None:
        nn.Module.__init__(self)

    def forward(self, x: Any) -> Any:
        self.scales, self.zeros = torch.tensor(SCALES), torch.tensor(ZEROS)
        return super().forward(x)


class Computed(PerChannel):
    """Its scales depend on its input."""

    def forward(self, x: Any) -> Any:
        scales = (x * x).mean(0)
        x = quantized.quantize_per_channel(x, scales, self.zeros, 1, *BYTES)
        return quantized.dequantize_per_channel(x, scales, self.zeros, 1, *BYTES)


class PerTensor(nn.Module):
    """Rounds its input."""

    def __init__(self, scale: float = 0.05, zero: int = 3, kind: Any = BYTES, result: Any = None) -> None:
        super().__init__()
        self.own, self.result = (scale, zero, *kind), result

    def forward(self, x: Any) -> Any:
        x = quantized.quantize_per_tensor(x, *self.own)
        return quantized.dequantize_per_tensor(x, *self.own, out_dtype=self.result)


class WithoutZeros(PerChannel):
    """Adds a weight that has no zero points, in another type."""

    def __init__(self, result: Any) -> None:
        super().__init__(persistent=True)
        self.result = result
        self.register_buffer("weight", torch.arange(-6, 6, dtype=torch.int8).reshape(3, 4))

    def forward(self, x: Any) -> Any:
        weight = quantized.dequantize_per_channel(self.weight, self.scales, None, 1, *BYTES, out_dtype=self.result)
        return x.to(weight.dtype) + weight


MODULES: Mapping[str, Callable[[], nn.Module]] = {
    "persistent": lambda: PerChannel(persistent=True),
    "not persistent": PerChannel,
    "attributes": Attributes,
    "in code": InCode,
    "float32": lambda: PerTensor(result=torch.float32),
    "float16": lambda: PerTensor(result=torch.float16),
    "no zeros": lambda: WithoutZeros(None),
    "no zeros, float16": lambda: WithoutZeros(torch.float16),
    "zero point above": lambda: PerTensor(zero=300),
    "zero point below": lambda: PerChannel(zeros=[0, 0, -129, 0]),
    "zero point between": lambda: PerChannel(zeros=[0, 0.5, 0, 0]),
    "scale 0": lambda: PerTensor(0.0),
    "scale below": lambda: PerTensor(-0.5),
    "scale nan": lambda: PerChannel([0.1, float("nan"), 0.1, 0.1]),
    "scale inf": lambda: PerChannel([0.1, float("inf"), 0.1, 0.1]),
    "computed": Computed,
    "float8": lambda: PerTensor(zero=0, kind=(-448, 448, torch.float8_e4m3fn)),
}


def case(module: nn.Module, x: Any) -> dict[str, Any]:
    """Return the largest difference from PyTorch and the type of the output, or the refusal."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.pt2"
        torch.export.save(torch.export.export(module, (x,)), path)
        try:
            imported = load(ModelSource(path, "exported", {"x": TensorType(tuple(x.shape), "float32")}))
        except UserError as error:
            return {"refusal": str(error)}
    with TARGET:
        (actual,) = outputs(imported, [x.numpy()])
    with torch.no_grad():
        expected = module(x).numpy()
    return {"error": float(abs(actual - expected).max()), "same type": actual.dtype == expected.dtype}


def main() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    for name, make in MODULES.items():
        print(json.dumps({"case": name, **case(make().eval(), x)}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
