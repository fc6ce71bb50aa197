"""Runs networks with reductions of rows with and without ``FuseRows`` and ``ScheduleRows``; prints one JSON line each.

A script for an interpreter with TVM's Relax: ``test_row_kernels.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls, run
from small_modules import network as small_network
from tvm import relax, s_tir, tirx
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, ScheduleRows
from passsearch.standalone.relax.cpu_schedules.schedule_rows import LEAST_ALLOCATED
from passsearch.standalone.relax.deployment.legalization import replace_functions
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath
from passsearch.standalone.relax.graph_rewrites.row_kernels import FuseRows

TARGETS = {name: tvm.target.Target(target_options(f"llvm -mcpu={name}")) for name in ("x86-64", "x86-64-v3")}
RANDOM = np.random.default_rng(0)


LOWERING = (
    *(getattr(s_tir.transform, name)() for name in ("LowerInitBlock", "PlanAndUpdateBufferAllocationLocation")),
    *(getattr(s_tir.transform, name)() for name in ("ConvertBlocksToOpaque", "CompactBufferAllocation")),
    *(s_tir.transform.LowerOpaqueBlock(), tirx.transform.FlattenBuffer(), tirx.transform.VectorizeLoop()),
    tirx.transform.StorageRewrite(),
)
"""The passes of TVM up to the one that places allocations."""


def number(value: float) -> Any:
    return relax.const(value, "float32")


def weight(*shape: int) -> Any:
    return relax.const(RANDOM.standard_normal(shape).astype("float32"))


def mean(emit: Any, data: Any) -> Any:
    return emit(op.mean(data, -1, keepdims=True))


def layer_norm(emit: Any, data: Any) -> Any:
    size = int(data.ty.shape.values[-1])
    centered = emit(op.subtract(data, mean(emit, data)))
    variance = mean(emit, emit(op.power(centered, number(2.0))))
    deviation = emit(op.sqrt(emit(op.add(variance, number(1e-12)))))
    scaled = emit(op.multiply(emit(op.divide(centered, deviation)), weight(size)))
    return emit(op.add(scaled, weight(size)))


def norm_and_product(emit: Any, data: Any) -> Any:
    norm = layer_norm(emit, data)
    product = emit(op.matmul(norm, weight(64, 64)))
    return layer_norm(emit, emit(op.add(product, norm)))


def written_softmax(emit: Any, data: Any) -> Any:
    shifted = emit(op.exp(emit(op.subtract(data, emit(op.max(data, -1, keepdims=True))))))
    return emit(op.divide(shifted, emit(op.sum(shifted, -1, keepdims=True))))


def mean_read_elsewhere(emit: Any, data: Any) -> Any:
    average = mean(emit, data)
    centered = emit(op.subtract(data, average))
    spread = emit(op.divide(centered, mean(emit, emit(op.multiply(centered, centered)))))
    return emit(op.matmul(emit(op.permute_dims(spread)), average))


NETWORKS: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "layer norm": ((2, 30, 64), layer_norm),
    "layer norm of 768": ((1, 16, 768), layer_norm),
    "layer norm of one row": ((1, 64), layer_norm),
    "layer norm of odd size": ((30, 17), layer_norm),
    "norm and product": ((30, 64), norm_and_product),
    "written softmax": ((3, 20, 48), written_softmax),
    "softmax": ((3, 20, 48), lambda emit, data: emit(op.nn.softmax(data))),
    "softmax of a prime length": ((3, 20, 37), lambda emit, data: emit(op.nn.softmax(data))),
    "softmax of a long prime length": ((3, 20, 131), lambda emit, data: emit(op.nn.softmax(data))),
    "softmax of a long odd length": ((200, 275), lambda emit, data: emit(op.nn.softmax(data))),
    "logarithm of softmax": ((3, 20, 48), lambda emit, data: emit(op.nn.log_softmax(data))),
    "softmax of few long rows": ((2, 4096), lambda emit, data: emit(op.nn.softmax(data))),
    "layer norm of TVM": (
        (30, 64),
        lambda emit, data: emit(op.nn.layer_norm(data, weight(64), weight(64), axes=-1)),
    ),
    "mean read elsewhere": ((30, 64), mean_read_elsewhere),
    "sum of rows": ((30, 64), lambda emit, data: emit(op.sum(data, -1))),
    "product": ((30, 64), lambda emit, data: emit(op.nn.relu(emit(op.matmul(data, weight(64, 48)))))),
}
"""Shape of the input and body, by name."""


def network(name: str) -> Any:
    shape, body = NETWORKS[name]
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, data))
        builder.emit_func_output(result)
    return builder.get()


def allocations(function: Any) -> int:
    """Return how often a function allocates memory, as the virtual machine runs it."""
    around: list[Any] = []

    def visit(loop: Any) -> None:
        allocated: list[Any] = []
        tvm_ffi.structural_walk(loop.body, (tirx.AllocBuffer, allocated.append))
        if any(math.prod(map(int, each.buffer.shape)) >= LEAST_ALLOCATED for each in allocated):
            around.append(int(loop.extent))

    lowered = tvm.transform.Sequential(LOWERING)(tvm.IRModule({"main": function}))["main"]
    tvm_ffi.structural_walk(lowered.body, (tirx.For, visit))
    return math.prod(around)


def case(name: str, target: Any) -> dict[str, Any]:
    fusion = (transform.FuseOps(fuse_opt_level=2), transform.FuseTIR(), ExpandMath())
    with target, tvm.transform.PassContext(opt_level=4):
        loops = tvm.transform.Sequential([transform.LegalizeOps(), transform.AnnotateTIROpPattern()])(network(name))
        plain = tvm.transform.Sequential(fusion)(loops.clone())
        grouped = FuseRows()(loops.clone())
        rows = tvm.transform.Sequential([*fusion, ScheduleRows()])(grouped)
        scheduled = ScheduleCPU()(rows.clone())
    functions = [function for _, function in rows.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    value = RANDOM.standard_normal(NETWORKS[name][0]).astype("float32")
    expected, actual = run(plain, value, target), run(scheduled, value, target)
    return {
        "kernels": [len(kernel_calls(plain)), len(kernel_calls(rows))],
        "by_row": sum(bool(function.attrs and SCHEDULED in function.attrs) for function in functions),
        "well_formed": bool(relax.analysis.check_well_formed(grouped)),
        "same": bool(np.allclose(expected, actual, rtol=1e-5, atol=1e-5 * float(np.abs(expected).max()))),
        "vectors": "T.vectorized(" in rows.script(),
        "allocations": max(map(allocations, functions)),
        "widened": 'T.Select(T.Cast("int32", ' in rows.script(),
    }


def bfloat16_softmax(target: Any) -> dict[str, Any]:
    """Return a row of the softmax of a type whose named vectors TVM lowers to NaN."""
    passes = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(fuse_opt_level=2)]
    with target, tvm.transform.PassContext(opt_level=4):
        loops = tvm.transform.Sequential([*passes, transform.FuseTIR(), ExpandMath(), ScheduleRows()])
        module = loops(small_network((63, 275), op.nn.softmax, "bfloat16"))
    value = RANDOM.standard_normal((63, 275)).astype("bfloat16")
    sums = run(module, value, target).astype("float32").sum(-1)
    return {"same": bool(np.allclose(sums, 1, atol=0.02))}


if __name__ == "__main__":
    replace_functions()
    for processor, target in TARGETS.items():
        for name in list(NETWORKS)[:: int(sys.argv[1])]:
            print(json.dumps({"case": f"{name} on {processor}", **case(name, target)}), flush=True)
    print(json.dumps({"case": "softmax in bfloat16", **bfloat16_softmax(TARGETS["x86-64-v3"])}))
