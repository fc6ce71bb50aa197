"""Schedules quantised networks in integers for a GPU and prints one JSON line each; the argument is a folder.

All threads run one after the other on the CPU, with the descriptions of instructions in their place, as in
``tensor_network_cases.py``. ``test_integers.py`` writes the networks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from gpu_cases import CPU, in_turn
from integer_cases import outputs, steps
from small_modules import kernel_calls
from tensor_cases import descriptions, target_for, without_pipeline
from tvm import tirx
from tvm.relax import transform

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.importers.onnx_graph import read
from passsearch.standalone.relax.deployment.legalization import replace_functions
from passsearch.standalone.relax.gpu_schedules import ScheduleGPU
from passsearch.standalone.relax.gpu_schedules.sums import sums_products
from passsearch.standalone.relax.gpu_schedules.tensor_products import TensorProducts
from passsearch.standalone.relax.graph_rewrites.cancel_transpositions import CancelTranspositions
from passsearch.standalone.relax.graph_rewrites.fold_constant import FoldConstant
from passsearch.standalone.relax.graph_rewrites.layouts import ConvertLayout
from passsearch.standalone.relax.integers import IntegerOperators

ARCHITECTURES = {75: "sm_75", 80: "sm_80"}


def kernels(module: Any) -> Any:
    """Return a network as the kernels that ``integer-schedule-gpu`` makes of it."""
    return tvm.transform.Sequential(
        [
            IntegerOperators(),
            FoldConstant("numpy"),
            ConvertLayout(kernel="OHWI"),
            FoldConstant("numpy"),
            CancelTranspositions(),
            transform.LegalizeOps(),
            transform.AnnotateTIROpPattern(),
            transform.FuseOps(2),
            transform.FuseTIR(),
        ]
    )(module)


def case(path: Path, capability: int) -> dict[str, Any]:
    """Return how far outputs are from ONNX Runtime's, and whether products of integers run on tensor cores."""
    with np.load(path.with_suffix(".npz")) as file:
        arrays = dict(file)
    inputs = {name.removeprefix("in "): each for name, each in arrays.items() if name.startswith("in ")}
    expected = [arrays[f"out {place}"] for place in range(sum(name.startswith("out ") for name in arrays))]
    types = {name: TensorType(each.shape, str(each.dtype)) for name, each in inputs.items()}
    with target_for(ARCHITECTURES[capability]), tvm.transform.PassContext(opt_level=3):
        module = kernels(read(ModelSource(path, "onnx", types, None, None)))
        runnable = ScheduleGPU()(module)
    tensor, others = [], []
    for variable, function in module.functions_items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        with descriptions("uint8 int8"):
            found = TensorProducts().schedule(function, capability)
        runnable[variable] = in_turn(without_pipeline(found.mod["main"] if found else runnable[variable]))
        if found or sums_products(function):
            (tensor if found else others).append(variable.name_hint)
    with CPU, tvm.transform.PassContext(opt_level=3):
        actual = outputs(runnable, list(inputs.values()))
    deviations = [
        steps(one, other, float(step)) for one, other, step in zip(actual, expected, arrays["steps"], strict=True)
    ]
    return {
        "case": path.stem,
        "capability": capability,
        "largest": max(each[0] for each in deviations),
        "mean": max(each[1] for each in deviations),
        "tensor": sum(name in tensor for name in kernel_calls(module)),
        "others": sum(name in others for name in kernel_calls(module)),
    }


if __name__ == "__main__":
    replace_functions()
    for capability in ARCHITECTURES:
        for each in sorted(Path(sys.argv[1]).glob("*.onnx")):
            print(json.dumps(case(each, capability)), flush=True)
