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
  Sums side by side also share the values that they load, which cannot be told apart from it here. Prefetched weights
  stand for it too, where weights come from memory; ``prefetch_products.py`` measures them.
  Kernels without sums of products have no such rung.

Every rung is checked in the assembly: vectors by packed instructions and the widest register that they use, threads by
calls of TVM's thread pool. GELU on 2^8 to 2^24 elements shows where threads begin to pay. The JSON is written after
every process, and the same command goes on where it stopped.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import physical_cores
from passsearch.measure import mean_interval, mean_ratio, probe
from passsearch.toolchain import get_toolchain, host_target

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "ladder.json"
NAMES = ("gelu", "softmax", "layer_norm", "matmul", "matmul_one_row", "convolution", "depthwise", "gelu_sizes")


def main() -> None:
    """Start the processes, write the JSON and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--kernels", default=",".join(NAMES), help="kernels, by commas; gelu_sizes is the curve")
    parser.add_argument("--toolchain", default="relax")
    arguments = parser.parse_args()
    names = arguments.kernels.split(",")
    print(tables(_measure_all(arguments.out, arguments.processes, names, arguments.toolchain)))


def _measure_all(out: Path, processes: int, names: list[str], toolchain_name: str) -> dict[str, Any]:
    """Measure in as many processes as are missing in the JSON, and return it."""
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
    command = [str(python), str(Path(__file__).with_name("ladder_kernels.py")), str(seed), ",".join(names)]
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
    sizes = sorted(map(int, curve))
    small = [curve[str(size)] for size in sizes if size <= 2**18]
    one, all_ = (np.array([row[name] for row in small]) for name in ("vectors", "both"))
    columns = np.stack([1 / all_, one / all_], axis=1)
    (overhead_s, share), *_ = np.linalg.lstsq(columns, np.ones(len(small)), rcond=None)
    slower = [size for size in sizes if curve[str(size)]["both"] >= curve[str(size)]["vectors"]]
    faster = [size for size in sizes if not slower or size > slower[-1]]
    return {"overhead_s": float(overhead_s), "share": float(share), "pays_from": faster[0] if faster else None}


def _ratio(logs: list[float]) -> str:
    ratio = mean_ratio(logs)
    return f"{ratio:.2f}" if len(logs) > 1 else f"{ratio.value:.2f}"


def _mean(values: list[float]) -> str:
    mean, interval = mean_interval(values)
    ends = f" [{interval.low:.2f}, {interval.high:.2f}]" if len(values) > 1 else ""
    return f"{mean:.2f}{ends}"


if __name__ == "__main__":
    main()
