"""Measures products whose weights come from memory, with and without prefetches, by their number of rows.

``python benchmarks/prefetch_products.py`` starts new processes of the toolchain's interpreter. Each makes two networks
of 16 pairs of products (768 by 3,072 and 3,072 by 768, 302 MB of weights), one with prefetches, and runs them in turns.
``--table`` prints the JSON and measures nothing.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "prefetch_products.json"
ROWS, LAYERS, SIZES, TURNS = (1, 4, 8, 16, 32, 64, 128, 256), 16, (768, 3072), 8


def measure() -> dict[str, Any]:
    """Return the fastest run of every network in seconds, by rows and kind, in this process with TVM."""
    from passsearch.measure.processor import pin_process

    pin_process(int(os.environ["TVM_NUM_THREADS"]))
    seconds: dict[str, dict[str, float]] = {}
    for rows in ROWS:
        networks = {"without": _network(rows, prefetch=0), "with": _network(rows, prefetch=None)}
        fastest = dict.fromkeys(networks, math.inf)
        for _ in range(TURNS):
            for name, run in networks.items():
                run()  # the weights of the network before are in the caches
                begin = time.perf_counter()
                run()
                fastest[name] = min(fastest[name], time.perf_counter() - begin)
        seconds[str(rows)] = fastest
    return seconds


def _network(rows: int, *, prefetch: int | None) -> Callable[[], object]:
    import numpy as np
    import tvm
    from tvm import relax
    from tvm.relax import op, transform

    from passsearch.dialects.relax.lowering import ZERO, lower, target_options
    from passsearch.dialects.relax.schedules import ScheduleCPU

    random = np.random.default_rng(0)
    builder = relax.BlockBuilder()
    value = data = relax.Var("x", relax.TensorType((rows, SIZES[0]), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            for _ in range(LAYERS):
                for shape in (SIZES, SIZES[::-1]):
                    weights = relax.const(random.standard_normal(shape, dtype="float32") / 50)
                    value = builder.emit(op.matmul(value, weights))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    target = tvm.target.Target(target_options(os.environ["PREFETCH_TARGET"]))
    passes = (transform.LegalizeOps(), ScheduleCPU(prefetch=prefetch))
    with target:
        module = lower(tvm.transform.Sequential(passes)(builder.get()), level=ZERO, target=target)
        machine = relax.VirtualMachine(relax.build(module, target, relax_pipeline=None), tvm.cpu())
    inputs = tvm.runtime.tensor(random.standard_normal((rows, SIZES[0]), dtype="float32"))
    machine.save_function("main", "timed", inputs, include_return=False)
    return machine["timed"]  # type: ignore[no-any-return]


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: milliseconds of a pair of products, and what prefetches give."""
    from passsearch.measure import mean_ratio

    lines = ["| rows | without, ms | with, ms | with / without | weights, GB/s |", "|---:|---:|---:|---|---:|"]
    gigabytes = 2 * 4 * math.prod(SIZES) / 1e9
    for rows in map(str, ROWS):
        runs = [process[rows] for process in document["processes"]]
        before, after = (min(run[name] for run in runs) / LAYERS for name in ("without", "with"))
        gain = mean_ratio([math.log(run["without"] / run["with"]) for run in runs])
        ratio = f"{gain.value:.2f} [{gain.interval.low:.2f}, {gain.interval.high:.2f}]"
        lines.append(f"| {rows} | {1e3 * before:.3f} | {1e3 * after:.3f} | {ratio} | {gigabytes / after:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Start the processes, write the JSON and print the table."""
    from passsearch.core import physical_cores
    from passsearch.measure import probe
    from passsearch.toolchain import get_toolchain, host_target

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--table", action="store_true", help="print Markdown, and measure nothing")
    options = parser.parse_args()
    if not options.table:
        toolchain, threads = get_toolchain("relax"), physical_cores()
        target = host_target(toolchain)
        device = dict(probe("cpu").device)
        document = {"date": date.today().isoformat(), "device": device, "threads": threads, "target": target}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": str(threads)}
        environment["PREFETCH_TARGET"] = target
        answers = [_answer(toolchain.python, environment) for _ in range(options.processes)]
        options.out.write_text(json.dumps({**document, "processes": answers}, indent=1) + "\n")
    print(table(json.loads(options.out.read_text())))


def _answer(python: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer of one new process; it has a file for that, because TVM prints to standard output."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "answer.json"
        command = [str(python), __file__]
        subprocess.run(command, env={**environment, "PREFETCH_ANSWER": str(file)}, stdout=sys.stderr, check=True)
        answer: dict[str, Any] = json.loads(file.read_text())
        return answer


if __name__ == "__main__":
    if answer_file := os.environ.get("PREFETCH_ANSWER"):
        Path(answer_file).write_text(json.dumps(measure()))
    else:
        main()
