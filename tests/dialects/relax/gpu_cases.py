"""Schedules kernels for a GPU and prints one JSON line per case.

No GPU is needed: what a schedule computes is shown by running its threads one after the other on the CPU. A script for
an interpreter with TVM's Relax: ``test_schedule_gpu.py`` runs it and reads the lines.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import kernel_calls, network, run
from tvm import relax, tirx
from tvm.relax import op, transform

from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.gpu_schedules import ScheduleGPU

# A target without a device states what DLight asks a device for.
LIMITS = {"max_num_threads": 1024, "max_threads_per_block": 1024, "max_shared_memory_per_block": 49152}
GPU = tvm.target.Target({"kind": "cuda", "arch": "sm_80", "thread_warp_size": 32, **LIMITS})
CPU = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)


def weights(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(RANDOM.standard_normal(shape).astype("float32"), dtype)


def depthwise(value: Any) -> Any:
    return op.nn.relu(op.nn.conv2d(value, weights(8, 1, 3, 3), padding=1, groups=8))


def convolution(value: Any) -> Any:
    return op.nn.conv2d(value, weights(3, 3, 8, 20), padding=1, data_layout="NHWC", kernel_layout="HWIO")


def product(value: Any) -> Any:
    return op.matmul(value, weights(48, 70, dtype=str(value.ty.dtype)))


def residual(value: Any) -> Any:
    product = op.nn.conv2d(value, weights(20, 3, 3, 8), padding=1, data_layout="NHWC", kernel_layout="OHWI")
    return op.nn.relu(op.add(op.add(product, weights(1, 1, 1, 20)), weights(1, 7, 9, 20)))


def swish(value: Any) -> Any:
    """Use a product twice."""
    found = op.add(op.matmul(value, weights(48, 70)), weights(70))
    return op.multiply(found, op.sigmoid(found))


def batched(value: Any) -> Any:
    return op.matmul(value, op.permute_dims(value, [0, 2, 1]))


def transposed(value: Any) -> Any:
    """Multiply the transposed input in one kernel: values of different rows are neighbours in its memory."""
    return op.einsum((value, weights(48, 70)), "ki,kj->ij")


def strided(value: Any) -> Any:
    return op.nn.conv2d(value, weights(20, 1, 1, 8), strides=2, data_layout="NHWC", kernel_layout="OHWI")


def grouped(value: Any) -> Any:
    layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
    return op.nn.relu(op.nn.conv2d(value, weights(32, 3, 3, 8), groups=2, **layouts))


def normalised(value: Any) -> Any:
    """Reduce a row to two results at once."""
    return op.nn.layer_norm(value, weights(33), weights(33), axes=[-1])


def joined(value: Any) -> Any:
    """Add what needs a short sum and what needs none."""
    return op.add(depthwise(value), op.exp(value))


def pooled(value: Any) -> Any:
    return op.multiply(op.nn.avg_pool2d(value, (3, 3), padding=1), relax.const(2.0))


NETWORKS: Mapping[str, tuple[Callable[[Any], Any], Sequence[int]]] = {
    "depthwise": (depthwise, (1, 8, 9, 9)),
    "convolution": (convolution, (1, 7, 9, 8)),
    "product": (product, (37, 48)),
    "softmax": (op.nn.softmax, (5, 33)),
    "residual": (residual, (1, 7, 9, 8)),
    "swish": (swish, (37, 48)),
    "batched": (batched, (3, 20, 33)),
    "strided": (strided, (1, 9, 9, 8)),
    "row": (product, (1, 48)),
    "long": (lambda value: op.matmul(value, weights(400, 40)), (5, 400)),
    "longer than wide": (lambda value: op.matmul(value, weights(260, 4100)), (5, 260)),
    "wide": (lambda value: op.matmul(value, weights(9, 4100)), (5, 9)),
    "normalised": (normalised, (5, 33)),
    "joined": (joined, (1, 8, 9, 9)),
    "pooled": (pooled, (1, 8, 9, 9)),
    "largest": (lambda value: op.astype(op.argmax(value, axis=1), "float32"), (5, 7)),
    "transposed": (transposed, (48, 37)),
    "grouped": (grouped, (1, 9, 9, 16)),
    "squared": (lambda value: op.matmul(value, value), (40, 40)),
}


def kernels(name: str, dtype: str = "float32") -> Any:
    """Return a module with one kernel that is not scheduled."""
    body, shape = NETWORKS[name]
    with GPU:
        return tvm.transform.Sequential(
            [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR()]
        )(network(shape, body, dtype))


@cache
def sample(name: str) -> tuple[Any, Any, Any]:
    """Return a module with one kernel that is not scheduled, an input, and its output."""
    module, value = kernels(name), RANDOM.standard_normal(NETWORKS[name][1]).astype("float32")
    return module, value, run(module, value, CPU)


def functions(module: Any) -> list[Any]:
    return [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]


def extents(function: Any) -> list[dict[str, int]]:
    """Return the extents of blocks and threads of every kernel that a function has."""
    found: list[dict[str, int]] = []

    def visit(loop: Any) -> None:
        if loop.thread_binding is not None:
            tag = str(loop.thread_binding.thread_tag)
            # Inner loops come first.
            if not found or (tag.startswith("threadIdx") and any(each.startswith("blockIdx") for each in found[-1])):
                found.append({})
            found[-1][tag] = int(loop.extent)

    tvm_ffi.structural_walk(function.body, (tirx.For, visit))
    return found


def sizes(function: Any) -> list[list[int]]:
    """Return the number of blocks and of threads of a block, of every kernel that a function has."""
    return [
        [math.prod(size for tag, size in each.items() if tag.startswith(kind)) for kind in ("blockIdx", "threadIdx")]
        for each in extents(function)
    ]


def count_vectors(function: Any) -> int:
    """Return the number of loops that run in vectors of several values."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.For, found.append))
    return sum(loop.kind == tirx.ForKind.VECTORIZED and int(loop.extent) > 1 for loop in found)


def in_turn(function: Any) -> Any:
    """Return a function whose threads run one after the other."""

    def serial(loop: Any) -> Any:
        if loop.thread_binding is None:
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, tirx.ForKind.SERIAL, loop.body)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, serial)))


def check(name: str, **settings: Any) -> dict[str, object]:
    """Schedule a network; return its threads, and whether it computes the same."""
    module, value, expected = sample(name)
    with GPU:
        scheduled = ScheduleGPU(**settings)(module)
    runnable = scheduled.clone()
    for variable, function in scheduled.functions_items():
        if isinstance(function, tirx.PrimFunc):
            runnable[variable] = in_turn(function)
    return {
        "case": f"{name}, {settings}",
        "untouched": not any(each.attrs and "tirx.is_scheduled" in each.attrs for each in functions(module)),
        "threads": [sizes(function) for function in functions(scheduled)],
        "vectors": [count_vectors(function) for function in functions(scheduled)],
        "same": bool(np.allclose(expected, run(runnable, value, CPU), rtol=1e-4, atol=1e-4)),
    }


def schedule_large() -> Any:
    """Return a product with more tiles than a GPU can have blocks along any axis but x."""
    with GPU:
        module = tvm.transform.Sequential([transform.LegalizeOps(), transform.FuseOps(0), transform.FuseTIR()])(
            network((2_200_000, 300), lambda value: op.matmul(value, weights(300, 40)), "float32")
        )
        (function,) = functions(ScheduleGPU()(module))
    return function


def refusal(**settings: Any) -> str:
    try:
        with GPU:
            ScheduleGPU(**settings)(kernels("product"))
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    (own_name,) = kernel_calls(kernels("product"))
    own: dict[str, Any] = {"kernels": {own_name: {"rule": "8x8x2x2x16x1"}}}
    for each in NETWORKS:
        print(json.dumps(check(each)))
    for settings in ({"rule": "8x8x2x2x16x1"}, own, {"rule": "Fallback"}, {"rule": "Matmul"}):
        print(json.dumps(check("product", **settings)))
    for each in ("product", "convolution", "residual", "swish", "batched", "strided", "squared", "transposed"):
        print(json.dumps(check(each, rule="8x8x2x4x8x3")))
        print(json.dumps(check(each, rule="8x8x4x8x8x3v")))
    for rule in ("8x8x4x4x16x1v", "8x8x2x2x16x1v", "4x8x1x1x8x1v", "4x4x8x4x8x2v"):
        print(json.dumps(check("product", rule=rule)))
    print(json.dumps(check("depthwise", rule="GeneralReduction")))
    with CPU:
        on_cpu = ScheduleGPU()(kernels("product"))
    print(json.dumps({"case": "cpu", "threads": [sizes(each) for each in functions(on_cpu)]}))
    half = kernels("product", "float16")
    with GPU:
        scheduled = {
            name: [sizes(each) for each in functions(ScheduleGPU(rule)(half))]
            for name, rule in (("own", None), ("dlight", "Matmul"), ("tiles", "8x16x2x2x32x1"))
        }
    old = tvm.target.Target({"kind": "cuda", "arch": "sm_75", "thread_warp_size": 32, **LIMITS})
    for name, dtype in (("without_bfloat16", "float16"), ("bfloat16", "bfloat16")):
        with old:  # its tensor cores multiply float16 only
            scheduled[name] = [sizes(each) for each in functions(ScheduleGPU()(kernels("product", dtype)))]
    print(json.dumps({"case": "half", **scheduled}))
    print(json.dumps({"case": "large", "extents": extents(schedule_large())}))
    for settings in (
        {"rule": "Best"},
        {"rule": "8x8x2x2x16"},
        {"rule": "8x8x2x3x16x1v"},
        {"rule": "8x8x2x2x18x1v"},
        {"kernels": {"any": {"rule": "0x8x2x2x16x1"}}},
        {"rule": "4x4x64x64x64x1t"},
        {"kernels": {"any": {"tile": "8x8"}}},
        {"kernels": {"missing": {"rule": "GEMV"}}},
    ):
        print(json.dumps({"case": "refused", "message": refusal(**settings)}))
