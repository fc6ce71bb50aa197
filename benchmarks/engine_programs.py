"""Compares what ``bench`` reads with what the engines' own programs read: an adapter must cost nothing.

``python benchmarks/engine_programs.py`` runs, for each network, OpenVINO's ``benchmark_app`` from its package, and a
plain loop on ONNX Runtime's own interface, because its package has no such program. Program and adapter take turns,
each in new processes, on the same file and cores with the same number of threads. The ratio is the program's median
latency over that of the adapter, the median over turns; it should lie between 0.9 and 1.1.

``benchmarks/results/engine_programs.json`` gets a row after each engine; rows that are there are not measured again.
Ten minutes on an idle machine.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from passsearch.core import physical_cores
from passsearch.engines import EngineSpec, declarations, engine_spec
from passsearch.engines.client import EngineFailure, EngineProcess
from passsearch.errors import EnvironmentFault
from passsearch.frontends import OnnxNetwork, resolve_onnx
from passsearch.measure import probe
from passsearch.toolchain import cache_folder

RESULTS = Path(__file__).parent / "results" / "engine_programs.json"
NETWORKS = ("resnet50", "mobilenet_v2", "bert_base_16")
LIMIT_S = 300.0

ONNXRUNTIME = """
import sys, time, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = int(sys.argv[2])
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
inputs = dict(np.load(sys.argv[3]))
session.run(None, inputs)
seconds, end = [], time.perf_counter() + float(sys.argv[4])
while time.perf_counter() < end:
    begin = time.perf_counter(); session.run(None, inputs); seconds.append(time.perf_counter() - begin)
print("median_ms", 1e3 * np.median(seconds))
"""

Program: TypeAlias = Callable[[Path, Path, Path, int, float], float]


def by_loop(python: Path, model: Path, inputs: Path, threads: int, seconds: float) -> float:
    """Return the median latency in seconds of a loop on ONNX Runtime's own interface."""
    arguments = [str(model), str(threads), str(inputs), str(seconds)]
    text = _run([str(python), "-c", ONNXRUNTIME, *arguments], threads)
    return float(text.split("median_ms")[1]) / 1e3


def by_benchmark_app(python: Path, model: Path, inputs: Path, threads: int, seconds: float) -> float:
    """Return the median latency in seconds that OpenVINO's ``benchmark_app`` prints; it makes inputs of its own."""
    del inputs
    code = "import sys; from openvino.tools.benchmark.main import main; sys.exit(main())"
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"CPU": {"EXECUTION_MODE_HINT": "ACCURACY"}}))
        options = ["-m", str(model), "-d", "CPU", "-api", "sync", "-hint", "none", "-nstreams", "1"]
        options += ["-nthreads", str(threads), "-infer_precision", "f32"]
        options += ["-t", str(max(1, round(seconds))), "-load_config", str(config)]
        text = _run([str(python), "-c", code, *options], threads)
    match = re.search(r"Median:\s+([\d.]+) ms", text)
    if match is None:
        raise EngineFailure(f"benchmark_app printed no median: {text.strip()[-300:]}")
    return float(match[1]) / 1e3


PROGRAMS: Mapping[str, tuple[str, Program]] = {
    "openvino": ("benchmark_app of the package openvino, float32", by_benchmark_app),
    "onnxruntime": ("a plain loop on InferenceSession.run", by_loop),
}


def _run(command: Sequence[str], threads: int) -> str:
    cores = ",".join(map(str, range(threads)))
    done = subprocess.run(["taskset", "-c", cores, *command], capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise EngineFailure((done.stderr or done.stdout).strip()[-300:])
    return done.stdout


def by_adapter(spec: EngineSpec, inputs: Path, threads: int, seconds: float) -> float:
    """Return the median latency in seconds that ``bench`` reads in one process."""
    with tempfile.TemporaryDirectory() as folder:
        process = EngineProcess(spec, threads=threads, log=Path(folder) / "engines.log")
        try:
            process.open(inputs)
            process.ask("outputs", folder=folder)
            answer = process.ask("visit", longest_s=seconds, most=10**9, warm_up=True)
        finally:
            process.close()
    return median(answer["seconds"])


def measure(engine: str, network: OnnxNetwork, *, threads: int, seconds: float, turns: int) -> dict[str, Any]:
    """Return the latencies of program and adapter, in turns, each in new processes."""
    import numpy as np

    from passsearch.dialects.case_inputs import random_inputs

    spec = engine_spec(engine, network.file.path)
    label, program = PROGRAMS[engine]
    rows: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        np.savez(inputs, **random_inputs(network.types, seed=0))  # type: ignore[arg-type]
        for _ in range(turns):
            adapter = by_adapter(spec, inputs, threads, seconds)
            own = program(spec.python, network.file.path, inputs, threads, seconds)
            rows.append({"program_s": own, "adapter_s": adapter})
    ratio = median(row["program_s"] / row["adapter_s"] for row in rows)
    return {"program": label, "turns": rows, "ratio": round(ratio, 4), "within_10_percent": 0.9 <= ratio <= 1.1}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what is missing, write the file after each row, and print the ratios; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("networks", nargs="*", default=NETWORKS, help="of the zoo (%(default)s)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of each measurement (%(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=physical_cores(), help="(%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    document = json.loads(options.out.read_text()) if options.out.exists() else {}
    is_complete = True
    for name in options.networks:
        network = resolve_onnx(f"zoo:{name}", folder=cache_folder() / "models")
        for engine in PROGRAMS:
            row = document.setdefault(name, {}).get(engine)
            if row is None:
                try:
                    row = measure(
                        engine, network, threads=options.threads, seconds=options.seconds, turns=options.turns
                    )
                except (EngineFailure, EnvironmentFault, subprocess.TimeoutExpired) as error:
                    print(f"{name} {engine}: {error}", file=sys.stderr)
                    is_complete = False
                    continue
                row |= {"date": date.today().isoformat(), "device": probe("cpu").device, "threads": options.threads}
                document[name][engine] = row
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(document, indent=1) + "\n")
            print(f"{name:16} {declarations()[engine].name:12} {row['ratio']:.3f} of the adapter's latency", flush=True)
    return 0 if is_complete else 1


if __name__ == "__main__":
    sys.exit(main())
