"""Schedules products with large weights with and without prefetches, and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_prefetch.py`` runs it and reads the lines.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax, tirx
from tvm.relax import op, transform
from tvm.sym import Analyzer

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.cpu_schedules.prefetch import Prefetch
from passsearch.standalone.relax.deployment.lowering import target_options

AVX, AVX512 = (tvm.target.Target(target_options(f"llvm -mcpu=x86-64-v{level}")) for level in (3, 4))
PREFETCH = "llvm.prefetch"


def product(rows: int, *shape: int) -> tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]:
    *batch, inner, _ = shape
    return (*batch, rows, inner), shape, op.matmul


def convolution(size: int, *shape: int) -> tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]:
    def body(data: Any, weights: Any) -> Any:
        return op.nn.conv2d(data, weights, padding=1, data_layout="NHWC", kernel_layout="HWIO")

    return (1, size, size, shape[2]), shape, body


CASES = {
    "few rows": product(16, 512, 512),
    "many rows": product(128, 512, 512),
    "a prime number of rows": product(37, 512, 512),
    "more tiles than are worth it": product(600, 384, 704),
    "columns that tiles repeat": product(16, 512, 1000),
    "one row": product(1, 512, 512),
    "weights for each batch": product(16, 16, 128, 128),
    "weights for each batch, many rows": product(64, 16, 128, 128),
    "convolution": convolution(6, 3, 3, 192, 160),
    "few steps": product(16, 3, 100_000),
    "small weights": product(16, 128, 128),
}
"""Shapes of the data and the weights, and the operator."""


def scheduled(name: str, target: Any, **settings: Any) -> Any:
    data, shape, operator = CASES[name]
    weights = relax.const(np.random.default_rng(0).standard_normal(shape, dtype="float32"))
    passes = (transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR())
    with target, tvm.transform.PassContext(opt_level=3):
        module = tvm.transform.Sequential(passes)(network(data, lambda value: operator(value, weights), "float32"))
        return ScheduleCPU(**settings)(module)


def case(name: str) -> dict[str, Any]:
    modules = [scheduled(name, AVX, keep_weights=True, prefetch=steps) for steps in (0, 8)]
    data = np.random.default_rng(1).standard_normal(CASES[name][0], dtype="float32")
    return {
        "with AVX-512": PREFETCH in scheduled(name, AVX512).script(),
        "with AVX": PREFETCH in scheduled(name, AVX).script(),
        "when asked": [PREFETCH in module.script() for module in modules],
        "equal": bool(np.array_equal(*(run(module, data, AVX) for module in modules))),
    }


def prefetches_next_weights(name: str) -> bool:
    """Return whether the first prefetch of the first tile is at the first weights of the next columns."""
    module = scheduled(name, AVX512)
    (function,) = [each for _, each in module.functions_items() if isinstance(each, tvm.tirx.PrimFunc)]
    addresses: list[Any] = []

    def visit(call: Any) -> None:
        if getattr(call.op, "name", "") == "tirx.address_of":
            addresses.append(call.args[0])

    tvm_ffi.structural_walk(function.body, (tvm.ir.Call, visit))
    place: Any = tirx.IntImm("int64", 0)
    for index, size in zip(addresses[0].indices, addresses[0].source.shape, strict=True):
        place = place * size + index
    first = tvm_ffi.structural_map(place, (tvm.ir.Var, lambda _: tirx.IntImm("int64", 0)))
    tile = CASES[name][1][0] * int(addresses[0].source.shape[-1])
    return bool(Analyzer().can_prove_equal(first, tirx.IntImm("int64", tile)))


def depthwise(size: int, channels: int) -> tuple[tuple[int, ...], tuple[int, ...], Callable[..., Any]]:
    def body(data: Any, weights: Any) -> Any:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
        return op.nn.conv2d(data, weights, padding=1, groups=channels, **layouts)

    return (1, size, size, channels), (3, 3, 1, channels), body


DEFAULTS: dict[str, tuple[Any, list[dict[str, int]]]] = {
    "product": (product(128, 512, 512), [{"prefetch": 8, "rows": 15}, {"prefetch": 64}]),
    "convolution": (convolution(14, 3, 3, 256, 256), [{"prefetch": 8}, {"prefetch": 64}]),
    "depthwise": (depthwise(28, 192), [{"vectors": 2}, {"vectors": 1}]),
    "one row": (product(1, 512, 1000), [{"vectors": 8}, {"vectors": 2}]),  # 63 vectors: 3 in a row
}
"""Kernels that searches had found other defaults for, each with settings that make that schedule and another one."""


def like_default(name: str) -> list[bool]:
    """Return whether the default makes the schedule of each of the two settings."""
    CASES[name], settings = DEFAULTS[name]
    default = scheduled(name, AVX512)
    return [bool(tvm_ffi.structural_equal(default, scheduled(name, AVX512, **each))) for each in settings]


def missed(prefetch: Prefetch, *, count: int) -> int:
    """Return how many vectors of the next tiles the tiles on the same weights do not prefetch."""
    prefetched: set[int] = set()
    for tile, step in itertools.product(range(prefetch.uses), range(0, count, prefetch.steps)):
        first = prefetch.ahead(tile, step, count=count)
        prefetched.update(range(first, first + prefetch.number * prefetch.line))
    return len(set(range(count * prefetch.vectors, 2 * count * prefetch.vectors)) - prefetched)


if __name__ == "__main__":
    for name in CASES:
        print(json.dumps({"case": name, **case(name)}), flush=True)
    for name in DEFAULTS:
        print(json.dumps({"case": f"default of {name}", "default": like_default(name)}), flush=True)
    print(json.dumps({"case": "address", "is_next": prefetches_next_weights("columns that tiles repeat")}), flush=True)
    for uses, vectors, steps, line in itertools.product((1, 2, 7, 64), (1, 2, 3), (4, 8, 64), (1, 2)):
        prefetch = Prefetch(place=0, uses=uses, vectors=vectors, steps=steps, line=line, lanes=8, is_stream=False)
        print(json.dumps({"case": repr(prefetch), "missed": missed(prefetch, count=256)}), flush=True)
