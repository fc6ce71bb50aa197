"""Schedules products in 8 and 16 bits and TF32 for tensor cores and prints one JSON line per case.

The arguments are a folder and the name of a group of cases.

No GPU is needed. What a kernel computes is shown twice and compared with numpy in float64: its scheduled loops run on
the CPU with the descriptions of the instructions in their place, and the device code that TVM generated is emulated
(``emulated_cuda.py``). Each case writes ``NAME.so``, whose cubin ``test_tensor_cores.py`` reads.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi
from emulated_cuda import Emulation, zeros_for
from gpu_cases import CPU, LIMITS, extents, in_turn
from tvm import relax, s_tir, te, tirx
from tvm.relax import op, transform
from tvm.s_tir import TensorIntrin

from passsearch.standalone.relax.deployment import cuda_libraries
from passsearch.standalone.relax.deployment.code_generation import ASYNC_COPIES, replace_copies
from passsearch.standalone.relax.gpu_schedules import ScheduleGPU, instructions
from passsearch.standalone.relax.gpu_schedules.rules import FLOAT32, TF32
from passsearch.standalone.relax.gpu_schedules.tensor_products import TensorProducts, capability
from passsearch.standalone.relax.gpu_schedules.tensor_tiles import TILES, parse_tensor_tile

ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-20}
"""Largest relative deviation by one rounding; of a sum in float32 for results in it."""
NUMPY = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


FAULTS = {
    "without barriers": r"__syncthreads\(\);",
    "without waits": r"tvm_builtin_ptx_cp_async_wait_group_async_wait_group_\d+\(\);",
    "with one row for all": r"\(\(int\)threadIdx\.x\) & (?=15)",
}
FAULTS_OF_TF32 = {"without rounding": r"round_to_tf32(?=\()"}
"""What is left out of device code, which then must not compute the same."""


@dataclass(frozen=True)
class Kernel:
    """Operators that make one kernel, and what they compute.

    Attributes:
        body: Makes the operators from variables.
        reference: Computes the same from arrays of float64.
        shapes: Shapes of the inputs.
        roundings: Number of operators, each of which rounds its result.
    """

    body: Callable[..., Any]
    reference: Callable[..., Any]
    shapes: Sequence[Sequence[int]]
    roundings: int = 1


def images(data: Any, weights: Any, *, stride: int, padding: int) -> Any:
    """Return a convolution of images in NHWC with weights in OHWI."""
    padded = np.pad(data, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[1:3], axis=(1, 2))
    return np.einsum("nhwcyx,oyxc->nhwo", windows[:, ::stride, ::stride], weights)


def in_nchw(data: Any, weights: Any) -> Any:
    """Return a convolution of padded images in NCHW with weights in OIHW."""
    result = images(data.transpose(0, 2, 3, 1), weights.transpose(0, 2, 3, 1), stride=1, padding=1)
    return result.transpose(0, 3, 1, 2)


def patches(size: int, channels: int, patch: int) -> Kernel:
    """Return a convolution of images in NHWC whose windows do not overlap."""
    return Kernel(
        convolution(patch, 0),
        lambda a, b: images(a, b, stride=patch, padding=0),
        ((1, size, size, channels), (40, patch, patch, channels)),
    )


def convolution(stride: int, padding: int) -> Callable[..., Any]:
    layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
    return lambda data, weights: op.nn.conv2d(data, weights, strides=stride, padding=padding, **layouts)


def swish(value: Any) -> Any:
    return op.multiply(value, op.sigmoid(value))


def kernels(rows: int, columns: int, terms: int) -> Mapping[str, Kernel]:
    """Return the kinds of kernels, in sizes."""
    two = ((rows, terms), (terms, columns))
    return {
        "product": Kernel(op.matmul, np.matmul, two),
        "wide": Kernel(lambda a, b: op.matmul(a, b, out_dtype="float32"), np.matmul, two),
        "turned right": Kernel(
            lambda a, b: op.einsum((a, b), "ik,jk->ij"), lambda a, b: a @ b.T, ((rows, terms), (columns, terms))
        ),
        "turned left": Kernel(
            lambda a, b: op.einsum((a, b), "ki,kj->ij"), lambda a, b: a.T @ b, ((terms, rows), (terms, columns))
        ),
        "batched": Kernel(op.matmul, np.matmul, ((2, 3, rows, terms), (2, 3, terms, columns))),
        "bias, activation": Kernel(
            lambda a, b, c: op.nn.relu(op.add(op.matmul(a, b), c)),
            lambda a, b, c: np.maximum(a @ b + c, 0),
            (*two, (columns,)),
            2,
        ),
        "residual": Kernel(
            lambda a, b, c, d: op.add(op.add(op.matmul(a, b), c), d),
            lambda a, b, c, d: a @ b + c + d,
            (*two, (columns,), (rows, columns)),
            3,
        ),
        "swish, cast": Kernel(
            lambda a, b: op.astype(swish(op.matmul(a, b, out_dtype="float32")), str(a.ty.dtype)),
            lambda a, b: a @ b / (1 + np.exp(-(a @ b))),
            two,
        ),
        "convolution": Kernel(
            lambda a, b: op.nn.relu(convolution(1, 1)(a, b)),
            lambda a, b: np.maximum(images(a, b, stride=1, padding=1), 0),
            ((1, 7, 9, terms), (columns, 3, 3, terms)),
        ),
        "strided": Kernel(
            lambda a, b, c: op.add(convolution(2, 0)(a, b), c),
            lambda a, b, c: images(a, b, stride=2, padding=0) + c,
            ((2, 9, 9, terms), (columns, 1, 1, terms), (1, 1, 1, columns)),
            2,
        ),
    }


def in_uint8(sums: Any) -> Any:
    """Return sums times a scale as integers of 8 bits."""
    scaled = op.multiply(op.astype(sums, "float32"), relax.const(np.float32(1e-3), "float32"))
    return op.astype(op.clip(op.add(scaled, relax.const(np.float32(100), "float32")), 0, 255), "uint8")


def as_uint8(sums: Any) -> Any:
    """Return what ``in_uint8`` computes."""
    scaled = sums.astype("float32") * np.float32(1e-3) + np.float32(100)
    return np.clip(scaled, 0, 255).astype("uint8").astype("int64")


def turned_right(left: Any, right: Any) -> Any:
    """Return the product of integers with a matrix whose rows are the columns of the result."""

    def compute(left: Any, right: Any) -> Any:
        k = te.reduce_axis((0, left.shape[1]), "k")

        def total(i: Any, j: Any) -> Any:
            return te.sum(left[i, k].astype("int32") * right[j, k].astype("int32"), k)

        return te.compute((left.shape[0], right.shape[0]), total, name="product")

    return relax.BlockBuilder.current().call_te(compute, left, right)


def integer_kernels(rows: int, columns: int, terms: int) -> Mapping[str, Kernel]:
    """Return the kinds of kernels of integers, in sizes."""
    two = ((rows, terms), (terms, columns))
    exact = {"out_dtype": "int32"}
    layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_dtype": "int32"}
    return {
        "product": Kernel(lambda a, b: op.matmul(a, b, **exact), np.matmul, two),
        "turned right": Kernel(turned_right, lambda a, b: a @ b.T, ((rows, terms), (columns, terms))),
        "batched": Kernel(
            lambda a, b: op.matmul(a, b, **exact), np.matmul, ((2, 3, rows, terms), (2, 3, terms, columns))
        ),
        "corrected, scaled": Kernel(
            lambda a, b, c: in_uint8(op.subtract(op.matmul(a, b, **exact), c)),
            lambda a, b, c: as_uint8(a @ b - c),
            (*two, (columns,)),
        ),
        "convolution": Kernel(
            lambda a, b, c: in_uint8(op.subtract(op.nn.conv2d(a, b, padding=1, **layouts), c)),
            lambda a, b, c: as_uint8(images(a, b, stride=1, padding=1) - c),
            ((1, 7, 9, terms), (columns, 3, 3, terms), (1, 1, 1, columns)),
        ),
        "strided": Kernel(
            lambda a, b: op.nn.conv2d(a, b, strides=2, **layouts),
            lambda a, b: images(a, b, stride=2, padding=0),
            ((2, 9, 9, terms), (columns, 1, 1, terms)),
        ),
        "NCHW": Kernel(
            lambda a, b: op.nn.conv2d(a, b, padding=1, **exact), in_nchw, ((1, terms, 7, 9), (columns, terms, 3, 3))
        ),
    }


SHORT_RUNS = {
    "patches of 4": patches(24, 3, 4),
    "patches of 16": patches(64, 3, 16),
    "patches of 20 channels": patches(12, 20, 2),
    "NCHW": Kernel(lambda a, b: op.nn.conv2d(a, b, padding=1), in_nchw, ((1, 8, 7, 7), (40, 8, 3, 3))),
    "heads": Kernel(
        lambda a, b: op.einsum((a, b), "ihd,jhd->ij"),
        lambda a, b: np.einsum("ihd,jhd->ij", a, b),
        ((33, 6, 12), (40, 6, 12)),
    ),
}
"""Sums of a multiple of eight terms, of which less than eight are neighbours in memory."""


def module_of(kernel: Kernel, dtype: str) -> Any:
    """Return a module whose main calls one kernel that is not scheduled."""
    builder = relax.BlockBuilder()
    inputs = zip(kernel.shapes, dtypes_of(kernel, dtype), strict=True)
    variables = [relax.Var(f"in{place}", relax.TensorType(*each)) for place, each in enumerate(inputs)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(kernel.body(*variables)))
        builder.emit_func_output(result)
    loops = [transform.LegalizeOps(), transform.AnnotateTIROpPattern(), transform.FuseOps(2), transform.FuseTIR()]
    with target_for("sm_80"):
        return tvm.transform.Sequential(loops)(builder.get())


def target_for(arch: str) -> Any:
    return tvm.target.Target({"kind": "cuda", "arch": arch, "thread_warp_size": 32, **LIMITS})


def function_of(module: Any) -> Any:
    (function,) = [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]
    return function


@contextmanager
def descriptions(dtype: str) -> Iterator[None]:
    """Have the descriptions of instructions in place of their code."""
    two = factors_of(dtype)
    names = [instructions.clear(each) for each in ("float32", "int32")]
    names += [instructions.multiply(*two, steps=steps) for steps in (8, 16, 32)]
    names += [instructions.load(place, two[place], transposed=each) for place in (0, 1) for each in (False, True)]
    kept = {name: TensorIntrin.get(name) for name in names}
    for name, each in kept.items():
        TensorIntrin.register(name, each.desc, each.desc, override=True)
    yield
    for name, each in kept.items():
        TensorIntrin.register(name, each.desc, each.impl, override=True)


def without_pipeline(function: Any) -> Any:
    """Return a function whose rounds of a sum run one after the other."""

    def plain(loop: Any) -> Any:
        if "software_pipeline_stage" not in loop.annotations:
            return loop
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body)

    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.For, plain)))


def described(function: Any, tile: str | None, arch: str, dtype: str, values: Sequence[Any], result: Any) -> None:
    """Run the scheduled loops of a function on the CPU."""
    with descriptions(dtype):
        rule = TensorProducts(parse_tensor_tile(tile) if tile else None, has_tf32=dtype == TF32)
        schedule = rule.schedule(function, capability(target_for(arch)))
    runnable = in_turn(without_pipeline(schedule.mod["main"])).with_attr("global_symbol", "main")
    library = tvm.compile(tvm.IRModule({"main": runnable}), target=CPU)
    arrays = [tvm.runtime.tensor(each) for each in (*values, result)]
    library["main"](*arrays)
    result[...] = arrays[-1].numpy()


def compiled(function: Any, rule: str | None, arch: str, library: Path, precision: str) -> tuple[Any, str]:
    """Schedule and compile a function as the pass does; return it and the CUDA code."""
    target = target_for(arch)
    with target, tvm.transform.PassContext(config={ASYNC_COPIES: True}):
        module = ScheduleGPU(rule, precision=precision)(
            tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        )
        made = tvm.compile(module, target=tvm.target.Target(target, "llvm"))
    made.export_library(str(library))
    return module["main"], str(made.mod.imports[0].inspect_source())


def factors_of(dtype: str) -> tuple[str, str]:
    """Return the types of both factors in memory: of two names each its own."""
    left, *others = (FLOAT32 if dtype == TF32 else dtype).split()
    return left, others[0] if others else left


def dtypes_of(kernel: Kernel, dtype: str) -> list[str]:
    """Return the types of a kernel's inputs: those of both factors, and int32 beside integers."""
    two = factors_of(dtype)
    return [*two, *("int32" if "int" in dtype else two[0] for _ in kernel.shapes[2:])]


def random_values(random: np.random.Generator, shape: Sequence[int], dtype: str) -> Any:
    """Return numbers of a type; integers of 8 bits are all there are."""
    if "int" not in dtype:
        return (random.standard_normal(shape) / 2).astype(NUMPY[dtype])
    limits = np.iinfo(dtype) if "int8" in dtype else np.iinfo("int16")
    return random.integers(limits.min, limits.max + 1, shape).astype(dtype)


def rounded(factors: Any) -> Any:
    """Return factors as TF32: with 10 bits after the point, the nearer ones, ties away from zero."""
    words = factors.astype(np.float32).view(np.uint32)
    return ((words + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)


def buffers_of(function: Any) -> dict[str, Any]:
    """Return arrays for what the kernels of a function hand to each other in the device's memory."""
    found: list[Any] = []
    tvm_ffi.structural_walk(function.body, (s_tir.stmt.SBlock, lambda block: found.extend(block.alloc_buffers)))
    kept = [each for each in found if each.scope() == "global"]
    return {
        each.name.replace(".", "_"): zeros_for([int(size) for size in each.shape], str(each.dtype)) for each in kept
    }


def check(
    name: str, kernel: Kernel, *, dtype: str, arch: str, tile: str | None, folder: Path, faults: bool = False
) -> dict[str, object]:
    """Return how far both runs of a kernel are from numpy, as a share of what roundings explain.

    Args:
        name: Name of the case.
        kernel: The kernel.
        dtype: Type of its inputs.
        arch: Architecture that it is compiled for.
        tile: Its tile; ``None`` for the usual one.
        folder: Folder for the library.
        faults: True to show, too, that device code with faults does not compute the same.
    """
    random = np.random.default_rng(0)
    function = function_of(module_of(kernel, dtype))
    inputs = zip(kernel.shapes, dtypes_of(kernel, dtype), strict=True)
    values = [random_values(random, *each) for each in inputs]
    wide = [each.astype(np.int64 if "int" in dtype else np.float64) for each in values]
    exact = expected = kernel.reference(*wide)
    if dtype == TF32:
        expected = kernel.reference(*map(rounded, wide[:2]), *wide[2:])
    # The kernel's parameters have the names of main's, but may come in another order.
    ordered = [values[int(each.name.removeprefix("in"))] for each in function.params[:-1]]
    dtypes = str(function.params[-1].dtype)
    # Integers have no other deviation than a whole one.
    bound = 0.5 if "int" in dtypes else ROUNDING[dtypes] * kernel.roundings * float(np.abs(expected).max())
    found = zeros_for(expected.shape, dtypes)
    described(function, tile, arch, dtype, ordered, found)
    case: dict[str, object] = {"case": name, "arch": arch, "dtype": dtype, "tile": tile}
    case["described"] = float(np.abs(found.astype(np.float64) - exact).max()) / bound
    library = folder / f"{len(list(folder.iterdir()))}.so"
    scheduled, source = compiled(function, tile, arch, library, TF32 if dtype == TF32 else FLOAT32)
    found = zeros_for(expected.shape, dtypes)
    for way in ("forwards", "backwards"):
        counts = emulate(source, scheduled, [*ordered, found], backwards=way == "backwards")
        case[way] = float(np.abs(found.astype(np.float64) - expected).max()) / bound
        found[...] = zeros_for(expected.shape, dtypes)
    planted = {**FAULTS, **(FAULTS_OF_TF32 if dtype == TF32 else {})}
    for fault, lost in planted.items() if faults else ():
        assert re.search(lost, source), f"{fault}: nothing to leave out"
        emulate(re.sub(lost, "", source), scheduled, [*ordered, found], backwards=False)
        case[fault] = bool((np.abs(found.astype(np.float64) - expected) <= bound).all())
    return {**case, **counts, "file": library.name}


def emulate(source: str, scheduled: Any, arrays: Sequence[Any], *, backwards: bool) -> dict[str, int]:
    """Run the device code of a function on its arrays; return what was counted."""
    with tempfile.TemporaryDirectory() as scratch:
        emulation = Emulation(source, Path(scratch))
    named = dict(zip([each.name for each in scheduled.params], arrays, strict=True))
    named |= buffers_of(scheduled)
    for each, sizes in zip(sorted(emulation.parameters), extents(scheduled), strict=True):
        emulation.run(each, sizes, named, backwards=backwards)
    return {each: emulation.count(each) for each in ("conflicts", "loads", "multiplications", "copies")}


FEW = [
    ("bias, activation", (33, 40, 72), "float16", "sm_80", None),
    ("turned left", (19, 37, 24), "float16", "sm_75", "1x2x32x16x32x1t"),
    ("residual", (33, 41, 264), "bfloat16", "sm_90", "2x1x16x32x32x4t"),
]
MANY = [
    *((kind, (33, 40, 72), "float16", "sm_80", None) for kind in kernels(1, 1, 1)),
    *((kind, (19, 37, 24), "bfloat16", "sm_86", "1x2x32x16x32x1t") for kind in ("swish, cast", "convolution")),
    *((kind, (19, 37, 24), "float16", "sm_75", "1x2x32x16x32x1t") for kind in ("turned right", "batched", "strided")),
    *(("bias, activation", (64, 64, 64), "float16", arch, None) for arch in ("sm_86", "sm_89", "sm_90")),
    *(("product", (64, 64, 64), "bfloat16", arch, None) for arch in ("sm_80", "sm_89", "sm_90")),
    *(("wide", (130, 136, 72), "float16", "sm_80", str(tile)) for tile in TILES[:3]),
    ("residual", (17, 40, 520), "float16", "sm_75", "2x1x16x32x32x2t"),
    *((kind, (), "float16", "sm_80", None) for kind in SHORT_RUNS),
]
IN_TF32 = [
    ("bias, activation", (33, 40, 72), TF32, "sm_80", None),
    ("turned right", (33, 40, 72), TF32, "sm_90", "2x1x16x32x16x1t"),
    ("turned left", (19, 37, 24), TF32, "sm_86", "1x2x32x16x32x1t"),
    ("batched", (33, 40, 72), TF32, "sm_80", None),
    ("residual", (33, 41, 264), TF32, "sm_90", "2x1x16x32x32x4t"),
    ("product", (130, 136, 72), TF32, "sm_89", "2x4x64x32x16x1t"),
    ("convolution", (33, 40, 72), TF32, "sm_80", None),
    ("strided", (19, 37, 24), TF32, "sm_80", None),
    ("NCHW", (), TF32, "sm_80", None),
]
IN_INTEGERS = [
    ("corrected, scaled", (33, 40, 144), "uint8 int8", "sm_80", None),
    ("turned right", (64, 64, 256), "uint8 int8", "sm_90", None),
    ("turned right", (33, 41, 50), "int8 int8", "sm_80", "1x2x32x16x32x1t"),
    ("product", (33, 41, 264), "uint8 int8", "sm_90", "2x1x16x32x64x4t"),
    ("product", (130, 136, 96), "int8 uint8", "sm_89", "2x4x64x32x64x1t"),
    ("batched", (19, 37, 24), "uint8 uint8", "sm_86", None),
    ("convolution", (33, 40, 32), "uint8 int8", "sm_80", None),
    ("convolution", (33, 24, 20), "uint8 int8", "sm_90", "2x1x16x32x32x2t"),
    ("strided", (19, 37, 24), "uint8 int8", "sm_80", None),
    ("NCHW", (19, 37, 24), "uint8 int8", "sm_80", None),
]
"""Kinds, sizes, types, architectures and tiles; the sizes of most are no multiples of a tile, or of a vector."""

if __name__ == "__main__":
    cuda_libraries.prepare("cc")
    replace_copies()
    groups = {"few": FEW, "many": MANY, "tf32": IN_TF32, "integers": IN_INTEGERS}
    folder_of_files, group = Path(sys.argv[1]), groups[sys.argv[2]]
    for kind, sizes, dtype, arch, tile in group:
        kinds = (integer_kernels if "int" in dtype else kernels)(*sizes) if sizes else SHORT_RUNS
        is_first = (kind, sizes, dtype, arch, tile) in (FEW[0], IN_TF32[0], IN_INTEGERS[0])
        case = check(kind, kinds[kind], dtype=dtype, arch=arch, tile=tile, folder=folder_of_files, faults=is_first)
        print(json.dumps(case), flush=True)
