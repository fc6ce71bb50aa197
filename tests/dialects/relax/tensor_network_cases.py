"""Schedules whole networks in float16 for tensor cores and prints one JSON line each; the arguments are ONNX files.

The networks are converted to float16 first, and written beside their files, with ``_half`` in the name. All threads run
one after the other on the CPU, with the descriptions of instructions in their place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from gpu_cases import GPU, in_turn
from gpu_network_cases import IMAGES, LOOPS, inputs, outputs
from onnx import TensorProto, numpy_helper
from small_modules import kernel_calls
from tensor_cases import descriptions
from tvm import tirx
from tvm.relax.frontend.onnx import from_onnx

from passsearch.standalone.relax.gpu_schedules import ScheduleGPU
from passsearch.standalone.relax.gpu_schedules.sums import sums_products
from passsearch.standalone.relax.gpu_schedules.tensor_products import TensorProducts, capability


def narrow(tensor: TensorProto) -> None:
    """Round a tensor of float32 to float16; what is beyond it, as in masks, becomes its largest number."""
    if tensor.data_type == TensorProto.FLOAT:
        values = numpy_helper.to_array(tensor)
        largest = float(np.finfo(np.float16).max)
        tensor.CopyFrom(numpy_helper.from_array(np.clip(values, -largest, largest).astype(np.float16), tensor.name))


def in_half(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a network with float16 in place of float32."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    del model.graph.value_info[:]
    for tensor in model.graph.initializer:
        narrow(tensor)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                narrow(attribute.t)
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    return model


def module_of(model: onnx.ModelProto) -> Any:
    has_images = any(node.op_type == "Conv" for node in model.graph.node)
    with GPU:
        module = from_onnx(model, keep_params_in_input=False)
        return tvm.transform.Sequential([*(IMAGES if has_images else []), *LOOPS])(module)


def check(path: Path) -> dict[str, object]:
    """Return the number of kernels and of those on tensor cores, and how far outputs are from those in float32."""
    wide = onnx.load(path)
    half = in_half(wide)
    onnx.save(half, path.with_name(f"{path.stem}_half.onnx"))
    module, reference = module_of(half), module_of(wide)
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
            runnable[variable] = in_turn(found.mod["main"])
            tensor.append(variable.name_hint)
        elif sums_products(function):
            others.append(variable.name_hint)
    values = inputs(reference)
    rounded = [
        tvm.runtime.tensor(each.numpy().astype("float16")) if str(each.dtype) == "float32" else each for each in values
    ]
    pairs = list(zip(outputs(runnable, rounded), outputs(reference, values), strict=True))
    return {
        "case": path.stem,
        "calls": len(calls),
        "kernels": len(set(calls)),
        "tensor": sum(name in tensor for name in calls),
        "others": [name for name in calls if name in others],
        "deviation": max(float(abs(own.astype("float32") - other).max() / abs(other).max()) for own, other in pairs),
    }


for each in sys.argv[1:]:
    print(json.dumps(check(Path(each))), flush=True)
