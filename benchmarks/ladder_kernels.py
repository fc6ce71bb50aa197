"""The kernels of ``ladder.py`` in the toolchain's interpreter, which has TVM: built rung by rung, and timed.

``python ladder_kernels.py SEED KERNELS`` writes its answer as JSON to the descriptor ``LADDER_ANSWER``, because TVM
prints to standard output.
"""

import json
import math
import os
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

POOL_CALL = "TVMBackendParallelLaunch"
SAMPLE_S, ROUNDS, LONGEST_S = 2e-3, 15, 1.5
"""Least time of a sample, the number of rounds, and the seconds after which a kernel begins no further round."""
EXPONENTS = range(8, 25)
"""Sizes of GELU, as powers of two."""


@dataclass(frozen=True)
class Rung:
    """Mechanisms of a kernel.

    Attributes:
        name: Name in the table.
        vectors: True for loops over lanes that are vectors.
        threads: True for parallel loops.
        overlap: True for several independent sums in flight.
    """

    name: str
    vectors: bool
    threads: bool
    overlap: bool = False


RUNGS = (
    Rung("scalar", vectors=False, threads=False),
    Rung("vectors", vectors=True, threads=False),
    Rung("threads", vectors=False, threads=True),
    Rung("both", vectors=True, threads=True),
    Rung("overlap", vectors=True, threads=True, overlap=True),
)


def measure(names: list[str], seed: int) -> dict[str, Any]:
    """Return the seconds of every rung of kernels, and of GELU by size, in this process."""
    from passsearch.measure.processor import pin_process

    pin_process(int(os.environ["LADDER_THREADS"]))
    kernels = make_kernels()
    order = [name for name in kernels if name in names]
    random.Random(seed).shuffle(order)
    document: dict[str, Any] = {"kernels": {name: _ladder(kernels[name]) for name in order}}
    if "gelu_sizes" in names:
        document["gelu_sizes"] = {str(2**exponent): _threads_of_gelu(2**exponent) for exponent in EXPONENTS}
    return document


def make_kernels() -> Mapping[str, Callable[[], Any]]:
    """Return the kernels by name: functions that make a module."""
    from tvm.relax import op

    nhwc = {"data_layout": "NHWC", "kernel_layout": "HWIO", "padding": 1}
    return {
        "gelu": lambda: _network(op.nn.gelu, (2**20,)),
        "softmax": lambda: _network(op.nn.softmax, (1536, 128)),
        "layer_norm": lambda: _network(lambda x, g, b: op.nn.layer_norm(x, g, b, axes=-1), (512, 768), (768,), (768,)),
        "matmul": lambda: _network(op.matmul, (128, 768), (768, 768)),
        "matmul_one_row": lambda: _network(op.matmul, (1, 3072), (3072, 3072)),
        "convolution": lambda: _network(lambda x, w: op.nn.conv2d(x, w, **nhwc), (1, 56, 56, 64), (3, 3, 64, 64)),
        "depthwise": lambda: _network(
            lambda x, w: op.nn.conv2d(x, w, groups=144, **nhwc), (1, 56, 56, 144), (3, 3, 1, 144)
        ),
    }


def _network(make: Callable[..., Any], *shapes: tuple[int, ...]) -> Any:
    """Return a module of one operator; all its arguments but the first are constants."""
    import numpy as np
    from tvm import relax

    rng = np.random.default_rng(0)
    data = relax.Var("x", relax.TensorType(shapes[0], "float32"))
    weights = [relax.const(rng.standard_normal(shape).astype("float32")) for shape in shapes[1:]]
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(make(data, *weights))
        builder.emit_func_output(result)
    return builder.get()


def _ladder(make: Callable[[], Any]) -> dict[str, Any]:
    """Return seconds and assembly of all rungs of a kernel, timed in turns."""
    module = make()
    built = {"plain": _build(_loops(module), vectors=True)}
    for rung in RUNGS:
        built[rung.name] = _build(_scheduled(module, rung), vectors=rung.vectors)
    same = built["both"].digest == built["overlap"].digest
    if same:
        del built["overlap"]
    seconds = _race(list(built.values()))
    rows = {
        name: {"seconds": value, **kernel.assembly}
        for (name, kernel), value in zip(built.items(), seconds, strict=True)
    }
    first = next(iter(built.values()))
    return {"flops": first.flops, "bytes": first.bytes, "rungs": rows}


def _threads_of_gelu(size: int) -> dict[str, float]:
    from tvm.relax import op

    module = _network(op.nn.gelu, (size,))
    rungs = [Rung("vectors", vectors=True, threads=False), Rung("both", vectors=True, threads=True)]
    kernels = [_build(_scheduled(module, rung, parallel=rung.threads), vectors=True) for rung in rungs]
    return {rung.name: seconds for rung, seconds in zip(rungs, _race(kernels), strict=True)}


def _target(*, vectors: bool) -> Any:
    """Return this machine's target; LLVM vectorises loops from level 2 on."""
    import tvm

    from passsearch.standalone.relax.deployment.lowering import target_options

    options = target_options(os.environ["LADDER_TARGET"])
    assert isinstance(options, dict)
    return tvm.target.Target({**options, "opt-level": 3 if vectors else 1})


def _loops(module: Any) -> Any:
    """Return a module whose kernel is not scheduled."""
    from tvm.relax import transform

    from passsearch.standalone.relax.graph_rewrites.row_kernels import FuseRows

    for step in (transform.LegalizeOps(), transform.AnnotateTIROpPattern()):
        module = step(module)
    return transform.FuseTIR()(transform.FuseOps(2)(FuseRows()(module)))


def _scheduled(module: Any, rung: Rung, *, parallel: bool = False) -> Any:
    """Return a module whose kernel has the schedule of ``schedule-cpu`` with the mechanisms of a rung.

    Args:
        module: The operator.
        rung: The mechanisms.
        parallel: True to make the outermost loop parallel whatever its size.
    """
    import tvm
    import tvm_ffi
    from tvm.tirx import For, ForKind, PrimFunc

    from passsearch.standalone.relax.cpu_schedules import ScheduleCPU, ScheduleRows
    from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

    one_sum = {} if rung.overlap else {"rows": 1, "vectors": 1}
    with _target(vectors=True):
        module = ScheduleCPU(**one_sum)(ScheduleRows()(ExpandMath()(_loops(module))))
    removed = {ForKind.VECTORIZED: rung.vectors, ForKind.PARALLEL: rung.threads}

    def change(loop: Any) -> Any:
        if removed.get(ForKind(loop.kind), True):
            return loop
        return For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, loop.body, None, loop.annotations)

    for variable, function in module.functions_items():
        if isinstance(function, PrimFunc):
            changed = tvm_ffi.structural_map(function, (For, change))
            module.update_func(variable, _with_threads(changed) if parallel else changed)
    assert isinstance(module, tvm.IRModule)
    return module


def _with_threads(function: Any) -> Any:
    """Return a function whose outermost loop is parallel; ``ScheduleCPU`` leaves small ones to one thread."""
    import tvm_ffi
    from tvm.tirx import For, ForKind

    loops: list[Any] = []
    tvm_ffi.structural_walk(function.body, (For, loops.append))
    if not loops or any(ForKind(loop.kind) is ForKind.PARALLEL for loop in loops):
        return function
    outer = max(loops, key=_depth)

    def change(loop: Any) -> Any:
        if not loop.loop_var.same_as(outer.loop_var):
            return loop
        return For(loop.loop_var, loop.min, loop.extent, ForKind.PARALLEL, loop.body, None, loop.annotations)

    return tvm_ffi.structural_map(function, (For, change))


def _depth(loop: Any) -> int:
    """Return the number of loops inside a loop."""
    import tvm_ffi
    from tvm.tirx import For

    inner: list[Any] = []
    tvm_ffi.structural_walk(loop.body, (For, inner.append))
    return len(inner)


@dataclass(frozen=True)
class Kernel:
    """A built kernel.

    Attributes:
        digest: Hash of its function and of the level of LLVM's optimiser.
        time_s: Returns the mean seconds of so many runs.
        assembly: Packed and scalar instructions, the widest register of a packed one, and calls of the thread pool.
        flops: Operations of one run; ``None`` if unknown.
        bytes: Bytes of arguments and results; ``None`` if unknown.
    """

    digest: str
    time_s: Callable[[int], float]
    assembly: Mapping[str, Any]
    flops: float | None
    bytes: int | None


def _build(module: Any, *, vectors: bool) -> Kernel:
    """Build the one kernel that the main function of a module calls."""
    import tvm
    import tvm_ffi

    from passsearch.dialects.relax.isolated_kernels import KernelArguments, isolate, list_kernels
    from passsearch.dialects.relax.kernels import kernel_costs

    (kernel,) = list_kernels(module, {})
    module = isolate(module, kernel.name)
    call = next(binding.value for block in module["main"].body.blocks for binding in block.bindings)
    function = module[call.args[0]].with_attr("global_symbol", "kernel")
    target = _target(vectors=vectors)
    with target:
        library = tvm.tirx.build(tvm.IRModule({"kernel": function}), target=target)
    arguments = KernelArguments(0, tvm.cpu()).own(call)
    evaluate = library.mod.time_evaluator if hasattr(library, "mod") else library.time_evaluator

    def time_s(number: int) -> float:
        return float(evaluate("kernel", tvm.cpu(), number=number, repeat=1)(*arguments).mean)

    costs = list(kernel_costs(module).values())
    source = (library.mod if hasattr(library, "mod") else library).inspect_source("asm")
    digest = f"{tvm_ffi.structural_hash(function):016x}-{vectors}"
    flops, size = (costs[0].flops, costs[0].bytes) if costs else (None, None)
    return Kernel(digest, time_s, read_assembly(source), flops, size)


def read_assembly(source: str) -> dict[str, Any]:
    """Return how many instructions are packed and scalar in single precision, the widest vector, and pool calls."""
    packed = re.findall(r"^\s*v?(?:add|sub|mul|div|max|min|sqrt|f[n]?m(?:add|sub)\d*)ps\b.*$", source, re.MULTILINE)
    scalar = re.findall(r"^\s*v?(?:add|sub|mul|div|max|min|sqrt|f[n]?m(?:add|sub)\d*)ss\b.*$", source, re.MULTILINE)
    bits = {"zmm": 512, "ymm": 256, "xmm": 128}
    widths = [bits[name] for line in packed for name in re.findall(r"%?([xyz]mm)\d", line)]
    return {
        "packed": len(packed),
        "scalar": len(scalar),
        "vector_bits": max(widths, default=0),
        "pool_calls": source.count(POOL_CALL),
    }


def _race(kernels: list[Kernel]) -> list[float]:
    """Run kernels in turns and return the fastest sample of each in seconds."""
    numbers = [max(1, math.ceil(SAMPLE_S / max(kernel.time_s(1), 1e-9))) for kernel in kernels]
    fastest, begin = [math.inf] * len(kernels), time.perf_counter()
    for turn in range(ROUNDS):
        for place, kernel in enumerate(kernels):
            fastest[place] = min(fastest[place], kernel.time_s(numbers[place]))
        if turn > 2 and time.perf_counter() - begin > LONGEST_S:
            break
    return fastest


def main() -> None:
    """Answer one request."""
    seed, names = sys.argv[1:]
    with os.fdopen(int(os.environ["LADDER_ANSWER"]), "w") as answer:
        json.dump(measure(names.split(","), int(seed)), answer)


if __name__ == "__main__":
    main()
