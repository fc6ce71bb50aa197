"""Computes sums of products of 8-bit integers in groups of four and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_quads.py`` runs it and reads the lines. Code for processors with
VNNI is made for them and read; its loops run here with the operator that any processor has in place of theirs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import transform

from passsearch.standalone.relax.cpu_schedules import PairProducts, ScheduleCPU
from passsearch.standalone.relax.cpu_schedules.quad_operator import QUADS, QUADS_VNNI
from passsearch.standalone.relax.deployment.lowering import lower, target_options

PLAIN = "x86-64-v3"
NARROW, FEW, ALL = 31, 64, 127
"""Largest weights: two words fit into 16 bits, one word does in any case, and none does."""


def convolution(data: Any, weights: Any, *, groups: int = 1, stride: int = 1) -> tuple[Any, Any]:
    """Return a convolution of data in NHWC and weights in OHWI as an operator, and its sums by numpy."""
    layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"}

    def call(value: Any) -> Any:
        factors = relax.const(weights, str(weights.dtype))
        return relax.op.nn.conv2d(value, factors, strides=stride, groups=groups, out_dtype="int32", **layouts)

    outputs, height, width, depth = weights.shape
    rows, columns = (1 + (size - part) // stride for size, part in zip(data.shape[1:3], (height, width), strict=True))
    sums = np.zeros((data.shape[0], rows, columns, outputs), "int64")
    for top, left in np.ndindex(height, width):
        part = data[:, top : top + stride * rows : stride, left : left + stride * columns : stride].astype("int64")
        for group in range(groups):
            own = slice(group * outputs // groups, (group + 1) * outputs // groups)
            read = part[..., group * depth : (group + 1) * depth]
            sums[..., own] += read @ weights[own, top, left].astype("int64").T
    return call, sums


def product(data: Any, weights: Any) -> tuple[Any, Any]:
    """Return a product as an operator, and its sums by numpy."""

    def call(value: Any) -> Any:
        return relax.op.matmul(value, relax.const(weights, str(weights.dtype)), out_dtype="int32")

    return call, data.astype("int64") @ weights.astype("int64")


def cases() -> Iterator[tuple[str, str, int, Callable[..., Any], tuple[int, ...], tuple[int, ...], dict[str, int]]]:
    """Yield a name, a processor, the largest weight, the operator and the shapes of its operands."""
    image, kernel = (1, 9, 11, 64), (48, 3, 3, 64)
    for processor in ("icelake-server", "alderlake"):
        yield f"convolution, VNNI, {processor}", processor, ALL, convolution, image, kernel, {}
        yield f"product, VNNI, {processor}", processor, ALL, product, (37, 128), (128, 96), {}
    yield "product of a row, VNNI", "znver4", ALL, product, (1, 515), (515, 72), {}
    colours = (2, 11, 9, 3), (20, 3, 2, 3)
    yield "convolution of colours, VNNI", "sapphirerapids", ALL, convolution, *colours, {"stride": 2}
    yield "convolution of groups, VNNI", "znver4", ALL, convolution, (1, 7, 7, 24), (64, 3, 3, 12), {"groups": 2}
    for name, largest in (("narrow", NARROW), ("few", FEW), ("all", ALL)):
        yield f"convolution, {name}", PLAIN, largest, convolution, image, kernel, {}
        yield f"product, {name}", PLAIN, largest, product, (37, 128), (128, 96), {}
    yield "product of a row, few", PLAIN, FEW, product, (1, 515), (515, 70), {}
    yield "convolution of colours, few, of one word", PLAIN, NARROW, convolution, *colours, {}
    # The last tile overlaps the one before, with the weights of two words.
    yield "convolution to 73 channels, narrow", PLAIN, NARROW, convolution, (1, 5, 6, 16), (73, 1, 1, 16), {}


def operands(largest: int, data: tuple[int, ...], weights: tuple[int, ...]) -> tuple[Any, Any]:
    """Return data of all values, and weights whose sums of pairs are the largest that are possible in many places."""
    random = np.random.default_rng(0)
    values = random.choice(np.array([0, 1, 127, 128, 254, 255], "uint8"), data)
    factors = random.integers(-largest, largest + 1, weights)
    factors = np.where(random.random(weights) < 0.5, np.sign(factors) * largest, factors)
    return values, factors.astype("int8")


def scheduled(call: Any, data: Any, target: Any) -> Any:
    """Return a module of one operator with its schedule for a target."""
    builder, value = relax.BlockBuilder(), relax.Var("x", relax.TensorType(data.shape, str(data.dtype)))
    with builder.function("main", [value]):
        with builder.dataflow():
            result = builder.emit_output(call(value))
        builder.emit_func_output(result)
    passes = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR()]
    with target, tvm.transform.PassContext(opt_level=3):
        return tvm.transform.Sequential([*passes, PairProducts(), ScheduleCPU()])(builder.get())


def built(module: Any, target: Any) -> Any:
    with target, tvm.transform.PassContext(opt_level=3):
        return relax.build(lower(module, level=0, target=target), target, relax_pipeline=None)


def for_any_processor(module: Any) -> Any:
    """Return a module with the operator of any processor in place of that of VNNI."""

    def changed(call: Any) -> Any:
        is_vnni = isinstance(call.op, tvm.ir.Op) and str(call.op.name) == QUADS_VNNI
        return tirx.call_intrin("int32", QUADS, *call.args) if is_vnni else call

    for name, function in module.functions_items():
        if isinstance(function, tirx.PrimFunc):
            module.update_func(name, function.with_body(tvm_ffi.structural_map(function.body, (relax.Call, changed))))
    return module


def instructions(library: Any) -> dict[str, int]:
    """Count the instructions of products in the code of a library."""
    code = library.mod.imports[0].inspect_source("asm")
    return {name: len(re.findall(rf"\b{name}\b", code)) for name in ("vpdpbusd", "vpmaddwd", "vpmaddubsw", "vpaddw")}


def case(name: str, processor: str, largest: int, make: Any, *shapes: Any, options: Any) -> dict[str, Any]:
    target, plain = (tvm.target.Target(target_options(f"llvm -mcpu={each}")) for each in (processor, PLAIN))
    data, weights = operands(largest, *shapes)
    call, sums = make(data, weights, **options)
    module = scheduled(call, data, target)
    library = built(module, target)
    found = instructions(library)
    if processor != PLAIN:
        library = built(for_any_processor(module), plain)
    result = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    return {"case": name, "equal": bool(np.array_equal(result, sums)), "instructions": found}


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for *each, options in cases():
        if wanted in each[0]:
            print(json.dumps(case(*each, options=options)), flush=True)
