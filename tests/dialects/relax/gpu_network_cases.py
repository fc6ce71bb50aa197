"""Schedules whole networks for a GPU and prints one JSON line each; the arguments are ONNX files.

The threads of all kernels run one after the other on the CPU, as in ``gpu_cases.py``.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from gpu_cases import CPU, GPU, functions, in_turn, sizes
from small_modules import kernel_calls
from tvm import relax, tirx
from tvm.relax import transform
from tvm.relax.frontend.onnx import from_onnx

from passsearch.standalone.relax.deployment.lowering import lower
from passsearch.standalone.relax.gpu_schedules import ScheduleGPU
from passsearch.standalone.relax.graph_rewrites.merge_products import MergeProducts
from passsearch.standalone.relax.graph_rewrites.row_kernels import FuseRows

IMAGES = [
    transform.FoldBatchnormToConv2D(),
    transform.DecomposeOpsForInference(),
    transform.FoldConstant(),
    transform.ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]}),
]
LOOPS = [
    transform.DecomposeOpsForInference(),
    transform.FoldConstant(),
    MergeProducts(merge=True),
    transform.LegalizeOps(),
    transform.AnnotateTIROpPattern(),
    FuseRows(),
    transform.FuseOps(2),
    transform.FuseTIR(),
]


def inputs(module: Any) -> list[Any]:
    random, values = np.random.default_rng(0), []
    for parameter in module["main"].params:
        shape, dtype = [int(size) for size in parameter.ty.shape.values], str(parameter.ty.dtype)
        is_float = dtype.startswith("float")
        value = random.standard_normal(shape) if is_float else random.integers(0, 2, shape)
        values.append(tvm.runtime.tensor(value.astype(dtype)))
    return values


def outputs(module: Any, values: list[Any]) -> list[Any]:
    with CPU:
        library = relax.build(lower(module, level=0, target=CPU), CPU, relax_pipeline=None)
    found = relax.VirtualMachine(library, tvm.cpu())["main"](*values)
    return [each.numpy() for each in (found if not hasattr(found, "numpy") else [found])]


def check(path: Path) -> dict[str, object]:
    """Return the number of kernels, and how far the outputs of scheduled kernels are from those of the others."""
    module = from_onnx(onnx.load(path), keep_params_in_input=False)
    has_images = any(node.op_type == "Conv" for node in onnx.load(path).graph.node)
    with GPU:
        module = tvm.transform.Sequential([*(IMAGES if has_images else []), *LOOPS])(module)
        scheduled = ScheduleGPU()(module)
    runnable = scheduled.clone()
    for variable, function in scheduled.functions_items():
        if isinstance(function, tirx.PrimFunc):
            runnable[variable] = in_turn(function)
    values = inputs(module)
    pairs = zip(outputs(runnable, values), outputs(module, values), strict=True)
    return {
        "case": path.stem,
        "calls": len(kernel_calls(scheduled)),
        "in_parts": sum(len(sizes(function)) > 1 for function in functions(scheduled)),
        "deviation": max(float(abs(own - other).max() / abs(other).max()) for own, other in pairs),
    }


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(json.dumps(check(Path(each))))
