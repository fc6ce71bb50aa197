"""Imports modules that PyTorch's ``pt2e`` could have quantised, runs them in integers, and prints a JSON line for each.

A script for an interpreter with TVM's Relax and PyTorch: ``test_integers.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import passsearch.dialects.relax.quick_import  # isort: skip  # noqa: F401  # before TVM is imported
import torch
import torch.ao.quantization.fx._decomposed  # registers the operators
import tvm
from integer_cases import TARGET, integer_form, outputs, steps
from torch import nn
from torch.nn import functional

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.exported_program import read
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU

quantized = torch.ops.quantized_decomposed
UNSIGNED, NARROW, SIGNED = (0, 255, torch.uint8), (0, 127, torch.uint8), (-128, 127, torch.int8)
STEP, ZERO = 0.05, 101


def rounded(x: Any, kind: Any) -> Any:
    """Return the tensor in steps of a scale, as the quantiser writes it."""
    zero = ZERO if kind[2] == torch.uint8 else -3
    return quantized.dequantize_per_tensor(quantized.quantize_per_tensor(x, STEP, zero, *kind), STEP, zero, *kind)


class Network(nn.Module):
    """Two layers with weights in int8, per channel in the convolution and per tensor in the product."""

    def __init__(self, kind: Any, groups: int) -> None:
        super().__init__()
        self.kind, self.groups = kind, groups
        self.register_buffer("kernel", torch.randint(-127, 128, (16, 16 // groups, 3, 3), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(16) * 0.002 + 0.001)
        self.register_buffer("zeros", torch.zeros(16, dtype=torch.int64), persistent=False)
        self.register_buffer("weight", torch.randint(-127, 128, (16, 16), dtype=torch.int8))
        self.bias = nn.Parameter(torch.randn(16))

    def forward(self, x: Any) -> Any:
        kernel = quantized.dequantize_per_channel(self.kernel, self.scales, self.zeros, 0, *SIGNED)
        x = rounded(x, self.kind)
        y = functional.conv2d(x, kernel, self.bias, padding=1, groups=self.groups)
        x = rounded(rounded(functional.relu(y), self.kind) + x, self.kind)
        x = rounded(functional.adaptive_avg_pool2d(x, 1).flatten(1), self.kind)
        weight = quantized.dequantize_per_tensor(self.weight, 0.01, 0, *SIGNED)
        return rounded(functional.linear(x, weight, self.bias), self.kind)


def case(network: Network) -> dict[str, Any]:
    x = torch.randn(1, 16, 8, 8)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.pt2"
        torch.export.save(torch.export.export(network, (x,)), path)
        module = read(ModelSource(path=path, format="exported", inputs={"x": TensorType(tuple(x.shape), "float32")}))
    with TARGET, tvm.transform.PassContext(opt_level=3):
        integers = integer_form(module)
        (actual,) = outputs(ScheduleCPU()(integers), [x.numpy()])
    with torch.no_grad():
        largest, _ = steps(actual, network(x).numpy(), STEP)
    sums, spread = integers.script().count("wide_sums"), float(np.ptp(actual)) / STEP
    return {"steps": largest, "integer_sums": sums, "spread": spread}


def main() -> None:
    for name, kind in (("unsigned", UNSIGNED), ("narrow", NARROW), ("signed", SIGNED)):
        for groups in (1, 16):
            torch.manual_seed(0)
            print(json.dumps({"case": f"{name}, {groups}", **case(Network(kind, groups).eval())}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
