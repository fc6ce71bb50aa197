"""Takes the schedules of kernels apart: ``python benchmarks/ladder.py [--out FILE] [--processes 5] [--kernels a,b]``.

Each kernel is scheduled as ``schedule-cpu`` does it. Then its mechanisms are taken out of the same loops and put back
one by one, as in "AI kernel compilation for edge devices" (an ablation ladder of vectorisation, multi-threading and
double buffering):

* ``plain``: the loops that TVM's default pipeline makes, for comparison.
* ``scalar``: the schedule with neither: its loops over lanes and its parallel loops are serial, LLVM does not vectorise
  (level 1), and a tile has one sum in flight.
* ``vectors``, ``threads``, ``both``: one of them put back, or both.
* ``overlap``: both, and as many independent sums in flight as registers allow. A CPU has no scratchpad memory and no
  copies that run beside arithmetic: its out-of-order core loads for the next sums while these are computed, and its
  prefetcher reads ahead. Independent work is all that a compiler can give it, so that stands for double buffering.
  Sums side by side also share the values that they load, which cannot be told apart from it here. Software prefetch and
  copies to a buffer of its own would stand for it too, but TVM's schedules for CPUs have neither.
  Kernels without sums of products have no such rung.

Every rung is checked in the assembly: vectors by packed instructions and the widest register that they use, threads by
calls of TVM's thread pool. GELU on 2^8 to 2^24 elements shows where threads begin to pay. The JSON is written after
every process, and the same command goes on where it stopped.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ladder.json"
POOL_CALL = "TVMBackendParallelLaunch"
SAMPLE_S, ROUNDS, LONGEST_S = 2e-3, 15, 1.5
"""Least time of a sample, the number of rounds, and the seconds after which a kernel begins no further round."""
EXPONENTS = range(8, 25)
"""Sizes of GELU, as powers of two."""
NAMES = ("gelu", "softmax", "layer_norm", "matmul", "matmul_one_row", "convolution", "depthwise", "gelu_sizes")


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


# In the toolchain's interpreter -------------------------------------------------------------------------------------


def measure(names: list[str], seed: int) -> dict[str, Any]:
    """Return the seconds of every rung of kernels, and of GELU by size, in this process."""
    import random

    from passsearch.measure.processor import pin_process

    pin_process(int(os.environ["LADDER_THREADS"]))
    kernels = KERNELS()
    order = [name for name in kernels if name in names]
    random.Random(seed).shuffle(order)
    document: dict[str, Any] = {"kernels": {name: _ladder(kernels[name]) for name in order}}
    if "gelu_sizes" in names:
        document["gelu_sizes"] = {str(2**exponent): _threads_of_gelu(2**exponent) for exponent in EXPONENTS}
    return document


def KERNELS() -> Mapping[str, Callable[[], Any]]:  # noqa: N802
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

    from passsearch.dialects.relax.lowering import target_options

    options = target_options(os.environ["LADDER_TARGET"])
    assert isinstance(options, dict)
    return tvm.target.Target({**options, "opt-level": 3 if vectors else 1})


def _loops(module: Any) -> Any:
    """Return a module whose kernel is not scheduled."""
    from tvm.relax import transform

    for step in (transform.LegalizeOps(), transform.AnnotateTIROpPattern()):
        module = step(module)
    return transform.FuseTIR()(transform.FuseOps(2)(_fuse_rows()(module)))


def _fuse_rows() -> Any:
    from passsearch.dialects.relax.row_kernels import FuseRows

    return FuseRows()


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

    from passsearch.dialects.relax.expand_math import ExpandMath
    from passsearch.dialects.relax.row_kernels import ScheduleRows
    from passsearch.dialects.relax.schedules import ScheduleCPU

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

    from passsearch.dialects.relax.isolated_kernels import ArgumentCopies, isolate, list_kernels
    from passsearch.dialects.relax.kernels import kernel_costs

    (kernel,) = list_kernels(module)
    module = isolate(module, kernel.name)
    call = next(binding.value for block in module["main"].body.blocks for binding in block.bindings)
    function = module[call.args[0]].with_attr("global_symbol", "kernel")
    target = _target(vectors=vectors)
    with target:
        library = tvm.tirx.build(tvm.IRModule({"kernel": function}), target=target)
    (arguments,) = ArgumentCopies(0).sets(call)
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


# In the user's interpreter ------------------------------------------------------------------------------------------


def main() -> None:
    """Start the processes, write the JSON and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--kernels", default=",".join(NAMES), help="kernels, by commas; gelu_sizes is the curve")
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names = arguments.kernels.split(",")
    if arguments.measure is not None:
        with os.fdopen(int(os.environ["LADDER_ANSWER"]), "w") as answer:
            json.dump(measure(names, arguments.measure), answer)
        return
    print(tables(_measure_all(arguments.out, arguments.processes, names, arguments.toolchain)))


def _measure_all(out: Path, processes: int, names: list[str], toolchain_name: str) -> dict[str, Any]:
    """Measure in as many processes as are missing in the JSON, and return it."""
    from passsearch.evaluate import physical_cores
    from passsearch.measure import probe
    from passsearch.toolchain import get_toolchain, host_target

    toolchain, threads = get_toolchain(toolchain_name), physical_cores()
    setup = {
        "device": dict(probe("cpu").device),
        "threads": threads,
        "target": host_target(toolchain),
        "tvm_version": toolchain.tvm_version,
        "kernels": names,
    }
    document: dict[str, Any] = {**setup, "processes": []}
    if out.exists():
        document = json.loads(out.read_text())
        changed = [key for key, value in setup.items() if document[key] != json.loads(json.dumps(value))]
        if changed:
            sys.exit(f"{out} has another {changed[0]}; give another --out.")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": str(threads)}
    environment |= {"LADDER_TARGET": setup["target"], "LADDER_THREADS": str(threads)}
    for seed in range(len(document["processes"]), processes):
        print(f"process {seed + 1} of {processes}", file=sys.stderr)
        document["processes"].append(_run(toolchain.python, names, seed, environment))
        document["date"] = date.today().isoformat()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(document, indent=1) + "\n")
    return document


def _run(python: Path, names: list[str], seed: int, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of one new process. TVM prints to standard output, so it has a pipe of its own."""
    read, write = os.pipe()
    command = [str(python), __file__, "--measure", str(seed), "--kernels", ",".join(names)]
    own = {**environment, "LADDER_ANSWER": str(write)}
    with subprocess.Popen(command, env=own, pass_fds=(write,), stdout=sys.stderr) as process:
        os.close(write)
        with os.fdopen(read) as answer:
            text = answer.read()
    if process.returncode:
        sys.exit(f"The process that measures ended with {process.returncode}.")
    document: dict[str, Any] = json.loads(text)
    return document


def tables(document: Mapping[str, Any]) -> str:
    """Return the ladder, what its rungs give, and the curve of GELU, as Markdown."""
    parts = (_ladder_table(document), _gain_table(document), _curve_table(document))
    return "\n\n".join(filter(None, parts))


def _ladder_table(document: Mapping[str, Any]) -> str:
    titles = ("kernel", "flops per byte", "rung", "ms", "x scalar", "vector bits", "packed : scalar", "pool calls")
    lines = ["| " + " | ".join(titles) + " |", "| --- | ---: | --- |" + " ---: |" * 5]
    for name, answers in _answers(document).items():
        intensity = f"{_intensity(answers):.1f}"
        for rung, first in answers[0]["rungs"].items():
            seconds = min(answer["rungs"][rung]["seconds"] for answer in answers)
            cells = [name, intensity, rung, f"{1e3 * seconds:.4f}", _ratio(_logs(answers, "scalar", rung))]
            cells += [str(first["vector_bits"] or "–"), f"{first['packed']} : {first['scalar']}"]
            lines.append("| " + " | ".join([*cells, str(first["pool_calls"])]) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _gain_table(document: Mapping[str, Any]) -> str:
    """Return what each mechanism gives by itself and beside the others, kernels of few operations per byte first."""
    steps = {
        "vectors": ("scalar", "vectors"),
        "threads": ("scalar", "threads"),
        "threads, with vectors": ("vectors", "both"),
        "overlap, with both": ("both", "overlap"),
    }
    lines = ["| kernel | flops per byte | " + " | ".join(steps) + " |", "| --- |" + " ---: |" * (len(steps) + 1)]
    for name, answers in sorted(_answers(document).items(), key=lambda item: _intensity(item[1])):
        gains = [_gain(answers, *step) for step in steps.values()]
        lines.append(f"| {name} | {_intensity(answers):.1f} | {' | '.join(gains)} |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _answers(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the answers of all processes by kernel."""
    names = (name for name in NAMES if name in document["processes"][0]["kernels"])
    return {name: [process["kernels"][name] for process in document["processes"]] for name in names}


def _intensity(answers: list[dict[str, Any]]) -> float:
    return float(answers[0]["flops"] / answers[0]["bytes"])


def _gain(answers: list[dict[str, Any]], before: str, after: str) -> str:
    return _ratio(_logs(answers, before, after)) if after in answers[0]["rungs"] else "none"


def _logs(answers: list[dict[str, Any]], before: str, after: str) -> list[float]:
    """Return the logarithm of how many times faster a rung is, by process."""
    pairs = [(answer["rungs"][before]["seconds"], answer["rungs"][after]["seconds"]) for answer in answers]
    return [math.log(one / other) for one, other in pairs]


def _curve_table(document: Mapping[str, Any]) -> str:
    curves = [process["gelu_sizes"] for process in document["processes"] if "gelu_sizes" in process]
    if not curves:
        return ""
    lines = ["| elements | one thread, us | all threads, us | x faster |", "| ---: | ---: | ---: | ---: |"]
    for size in curves[0]:
        one, all_ = (min(curve[size][name] for curve in curves) for name in ("vectors", "both"))
        logs = [math.log(curve[size]["vectors"] / curve[size]["both"]) for curve in curves]
        lines.append(f"| {size} | {1e6 * one:.3f} | {1e6 * all_:.3f} | {_ratio(logs)} |")
    fits = [fit_threads(curve) for curve in curves]
    pays = "never" if any(fit["pays_from"] is None for fit in fits) else str(max(fit["pays_from"] for fit in fits))
    lines += ["", f"Threads pay from {pays} elements on (in every process, and for every larger size)."]
    lines.append(f"Fitted overhead of a parallel loop: {_mean([1e6 * fit['overhead_s'] for fit in fits])} us.")
    return "\n".join(lines)


def fit_threads(curve: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return the overhead of a parallel loop, and the size from which all threads are faster than one.

    The time of all threads is ``overhead_s + share * time of one thread``: least squares of relative errors over the
    sizes whose data fit into the nearest caches, as larger ones are bound by memory.
    """
    import numpy as np

    sizes = sorted(map(int, curve))
    small = [curve[str(size)] for size in sizes if size <= 2**18]
    one, all_ = (np.array([row[name] for row in small]) for name in ("vectors", "both"))
    columns = np.stack([1 / all_, one / all_], axis=1)
    (overhead_s, share), *_ = np.linalg.lstsq(columns, np.ones(len(small)), rcond=None)
    slower = [size for size in sizes if curve[str(size)]["both"] >= curve[str(size)]["vectors"]]
    faster = [size for size in sizes if not slower or size > slower[-1]]
    return {"overhead_s": float(overhead_s), "share": float(share), "pays_from": faster[0] if faster else None}


def _ratio(logs: list[float]) -> str:
    from passsearch.measure import mean_ratio

    document = mean_ratio(logs).to_json()
    ends = " [{:.2f}, {:.2f}]".format(*document["interval"]) if len(logs) > 1 else ""
    return f"{document['ratio']:.2f}{ends}"


def _mean(values: list[float]) -> str:
    from passsearch.measure import mean_interval

    mean, interval = mean_interval(values)
    ends = f" [{interval.low:.2f}, {interval.high:.2f}]" if len(values) > 1 else ""
    return f"{mean:.2f}{ends}"


if __name__ == "__main__":
    main()
