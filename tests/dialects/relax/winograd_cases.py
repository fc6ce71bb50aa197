"""Runs convolutions directly and by Winograd's algorithm and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_winograd.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.lowering import lower, target_options
from passsearch.dialects.relax.schedules import ScheduleCPU
from passsearch.dialects.relax.winograd import Winograd, regions

TARGETS = {name: tvm.target.Target(target_options(f"llvm -mcpu={name}")) for name in ("x86-64", "x86-64-v3")}
RANDOM = np.random.default_rng(0)
LAYOUTS = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def values(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype("float32")


def convolution(*, kernel: int = 3, **attributes: Any) -> Callable[[Any], Any]:
    def body(data: Any) -> Any:
        channels = int(data.ty.shape.values[-1])
        weights = relax.const(values(kernel, kernel, channels // attributes.get("groups", 1), 16))
        return op.nn.conv2d(data, weights, **LAYOUTS, **attributes)

    return body


def fused(data: Any) -> Any:
    result = op.add(convolution(padding=1)(data), relax.const(values(1, 1, 1, 16)))
    return op.nn.relu(op.add(result, data))


CASES: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "padded": ((1, 8, 8, 16), convolution(padding=1)),
    "not padded": ((1, 10, 10, 16), convolution()),
    "padded on two sides": ((1, 8, 8, 16), convolution(padding=(1, 0, 0, 1))),
    "no multiple of a tile": ((1, 7, 9, 16), convolution(padding=1)),
    "one row": ((1, 1, 12, 16), convolution(padding=1)),
    "batch": ((3, 8, 6, 16), convolution(padding=1)),
    "few channels": ((1, 8, 8, 3), convolution(padding=1)),
    "odd channels": ((1, 6, 6, 10), convolution(padding=1)),
    "fused": ((1, 9, 9, 16), fused),
}
UNFIT: dict[str, tuple[tuple[int, ...], Callable[[Any], Any]]] = {
    "stride": ((1, 8, 8, 16), convolution(padding=1, strides=2)),
    "dilation": ((1, 8, 8, 16), convolution(padding=2, dilation=2)),
    "kernel of five": ((1, 8, 8, 16), convolution(kernel=5, padding=2)),
    "groups": ((1, 8, 8, 16), convolution(padding=1, groups=4)),
}


def network(shape: tuple[int, ...], body: Callable[[Any], Any]) -> Any:
    builder, data = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(body(data)))
        builder.emit_func_output(result)
    return transform.Normalize()(builder.get())


def run(module: Any, value: Any, target: Any) -> Any:
    passes = (transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR())
    with target, tvm.transform.PassContext(opt_level=4):
        module = ScheduleCPU()(tvm.transform.Sequential(passes)(module))
        library = relax.build(lower(module, level=0, target=target), target, relax_pipeline=None)
    return relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(value)).numpy()


def case(name: str, size: int, target: Any) -> dict[str, Any]:
    shape, body = CASES[name]
    module, value = network(shape, body), values(*shape)
    winograd = Winograd(size=size)(module)
    kernels = [variable.name_hint for variable, _ in winograd.functions_items()]
    expected, actual = run(module, value, target), run(winograd, value, target)
    deviation = float(np.abs(actual - expected).max() / np.abs(expected).max())
    return {"deviation": deviation, "converted": any("winograd" in kernel for kernel in kernels)}


def message(**arguments: Any) -> str:
    try:
        Winograd(**arguments)(network(*CASES["padded"]))
    except ValueError as error:
        return str(error).splitlines()[-1]
    return ""


if __name__ == "__main__":
    for processor, target in TARGETS.items():
        for name in CASES:
            for size in (2, 4):
                print(json.dumps({"case": f"{name}, {size} on {processor}", **case(name, size, target)}), flush=True)
    for name, (shape, body) in UNFIT.items():
        print(json.dumps({"case": name, "regions": regions(network(shape, body))}), flush=True)
    print(json.dumps({"case": "regions", "regions": regions(network(*CASES["fused"]))}), flush=True)
    errors = [message(size=3), message(convolutions={"5": 4}), message(convolutions={"0": 4})]
    print(json.dumps({"case": "errors", "messages": errors}), flush=True)
