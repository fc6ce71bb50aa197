"""Schedules whole networks with products in float16 and prints one JSON line each; the arguments are ONNX files.

All threads run one after the other on the CPU, with the descriptions of instructions in their place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import onnx
import tvm
from gpu_cases import GPU, in_turn
from gpu_network_cases import IMAGES, LOOPS, inputs, outputs
from small_modules import kernel_calls
from tensor_cases import descriptions, without_pipeline
from tvm import tirx
from tvm.relax.frontend.onnx import from_onnx
from tvm.relax.transform import ToMixedPrecision

from passsearch.standalone.relax.gpu_schedules import ScheduleGPU
from passsearch.standalone.relax.gpu_schedules.sums import sums_products
from passsearch.standalone.relax.gpu_schedules.tensor_products import TensorProducts, capability


def module_of(path: Path, *, half: bool) -> Any:
    """Return a network as kernels that are not scheduled, its products in float16 if ``half``."""
    model = onnx.load(path)
    has_images = any(node.op_type == "Conv" for node in model.graph.node)
    passes = [*(IMAGES if has_images else []), *([ToMixedPrecision()] if half else []), *LOOPS]
    with GPU:
        return tvm.transform.Sequential(passes)(from_onnx(model, keep_params_in_input=False))


def check(path: Path) -> dict[str, object]:
    """Return the number of kernels and of those on tensor cores, and how far outputs are from those in float32."""
    module, reference = module_of(path, half=True), module_of(path, half=False)
    with GPU:
        ScheduleGPU()(module)
    runnable, tensor, others = module.clone(), [], []
    rule, arch = TensorProducts(), capability(GPU)
    calls = kernel_calls(module)
    for variable, function in module.functions_items():
        if not isinstance(function, tirx.PrimFunc):
            continue
        with descriptions("float16"):
            found = None if rule.apply(function, GPU, False) is None else rule.schedule(function, arch)
        if found is not None:
            runnable[variable] = in_turn(without_pipeline(found.mod["main"]))
            tensor.append(variable.name_hint)
        elif sums_products(function):
            others.append(variable.name_hint)
    values = inputs(reference)
    pairs = list(zip(outputs(runnable, values), outputs(reference, values), strict=True))
    return {
        "case": path.stem,
        "calls": len(calls),
        "kernels": len(set(calls)),
        "tensor": sum(name in tensor for name in calls),
        "others": [name for name in calls if name in others],
        "deviation": max(float(abs(own - other).max() / abs(other).max()) for own, other in pairs),
    }


for each in sys.argv[1:]:
    print(json.dumps(check(Path(each))), flush=True)
