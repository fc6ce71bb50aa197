"""Measure a BERT-like encoder at lengths between its buckets, beside engines with open sizes, in paired rounds.

All engines are loaded at once, each in a process of its own; in each round all run each length in turns, in a random
order, each after a pause in which idle threads of the engine before stop spinning. ``--torch-python`` is an interpreter
with PyTorch and ONNX Runtime.
"""

import json
import math
import random
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import passsearch
from benchmarks.common import RESULTS, note, options, provenance, read, write
from benchmarks.speed.open_bert import ENGINES
from passsearch.core import read_calls
from passsearch.engines import EnginePlan
from passsearch.evaluate import Session, open_session
from passsearch.frontends import resolve
from passsearch.measure import mean_ratio
from passsearch.toolchain import cache_folder

PROGRAM = Path(__file__).with_name("open_bert.py")
BUCKETS = (16, 64, 128, 512)
LENGTHS = (5, 16, 20, 40, 64, 70, 100, 128, 150, 250, 400, 500)
KINDS = ("fastest_s", "median_s")
"""What is kept of the calls of an engine at a length in one round."""

RIVALS = ("passsearch, open sizes", "onnxruntime", "inductor")


def main() -> None:
    """Compile, measure, and write one row of results."""
    chosen = options(
        __doc__,
        size=("small", "small or base"),
        rounds=(7, "rounds"),
        seconds=(0.2, "seconds of calls of an engine at a length in a round"),
        toolchain=("relax", "toolchain"),
        torch_python=(str, "interpreter with PyTorch and ONNX Runtime"),
        folder=(str, "folder for the network and its deployment; a temporary one by default"),
    )
    with ExitStack() as stack:
        folder = Path(chosen.folder or stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        row = _measure(chosen, folder)
    file = RESULTS / "buckets.json"
    write(file, {**read(file), chosen.size: row})


def _measure(chosen: Any, folder: Path) -> dict[str, Any]:
    network, deployment = folder / f"{chosen.size}.onnx", folder / f"{chosen.size}-deploy"
    if not network.exists():
        subprocess.run([chosen.torch_python, PROGRAM, "write", chosen.size, network], check=True)
    if not (deployment / "built").exists():
        shutil.rmtree(deployment, ignore_errors=True)
        sizes = "ids=" + ",".join(f"1x{size}" for size in BUCKETS)
        passsearch.compile(network, to=deployment, sizes=sizes, rivals=(), toolchain=chosen.toolchain, deadline=600)
    document = json.loads((deployment / "compilation.json").read_text())
    pythons = {"passsearch": document["python"], "passsearch, open sizes": document["python"]}
    files = {"passsearch": deployment, "passsearch, open sizes": deployment}
    with ExitStack() as stack:
        engines = {
            name: stack.enter_context(
                _Engine(name, chosen.size, pythons.get(name, chosen.torch_python), files.get(name, network))
            )
            for name in ENGINES
        }
        rows = _rounds(engines, chosen, folder)
    return {
        **provenance(_session(network, chosen.toolchain)),
        "buckets": BUCKETS,
        "rounds": chosen.rounds,
        "compile_s": document["seconds"],
        "library_bytes": (deployment / "built" / "network.so").stat().st_size,
        "network_bytes": network.stat().st_size,
        "sizes": document["sizes"],
        "lengths": rows,
    }


def _session(network: Path, toolchain: str) -> Session:
    calls = read_calls(None, f"ids=1x{BUCKETS[0]}", {})
    return open_session(
        resolve(str(network), calls=calls, folder=cache_folder() / "models"), toolchain=toolchain, target=None
    )


class _Engine:
    """An engine in a process of its own."""

    def __init__(self, name: str, size: str, python: str, path: Path) -> None:
        command = [python, str(PROGRAM), "serve", name, size, str(path)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_s = self._answer()["load_s"]

    def __enter__(self) -> "_Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def run(self, length: int, seconds: float, file: Path | None = None) -> dict[str, Any]:
        """Run one length for some seconds; its outputs go to the file."""
        request = {"length": length, "seconds": seconds, "file": str(file or "")}
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        return dict(json.loads(self._process.stdout.readline()))


def _rounds(engines: dict[str, _Engine], chosen: Any, folder: Path) -> dict[str, Any]:
    """Return by length the times of all engines, and how far their outputs are from ONNX Runtime's."""
    first, deviations = {}, {}
    for length in LENGTHS:  # Inductor compiles here, and every engine takes memory for its largest size
        outputs = {}
        for name, engine in engines.items():
            file = folder / f"outputs-{list(ENGINES).index(name)}.npy"
            first[name, length] = engine.run(length, 0.0, file)["first_s"]
            outputs[name] = np.load(file)
        expected = outputs["onnxruntime"]
        deviations[length] = {
            name: float(np.abs(own - expected).max() / np.abs(expected).max()) for name, own in outputs.items()
        }
    times: dict[str, dict[int, dict[str, list[float]]]] = {
        kind: {length: {name: [] for name in engines} for length in LENGTHS} for kind in KINDS
    }
    for number in range(chosen.rounds):
        note("round", number + 1, chosen.rounds)
        for length in LENGTHS:
            for name in random.sample([*engines], len(engines)):
                time.sleep(EnginePlan().pause_s)
                answer = engines[name].run(length, chosen.seconds)
                for kind in KINDS:
                    times[kind][length][name].append(answer[kind])
    return {
        str(length): {
            "bucket": next((size for size in BUCKETS if size >= length), None),
            "first_s": {name: first[name, length] for name in engines},
            "deviation": deviations[length],
            **{
                kind: {
                    "median": {name: median(own) for name, own in times[kind][length].items()},
                    "ratios": {
                        name: _ratio(times[kind][length]["passsearch"], times[kind][length][name]) for name in RIVALS
                    },
                    "rounds": times[kind][length],
                }
                for kind in KINDS
            },
        }
        for length in LENGTHS
    }


def _ratio(own: list[float], other: list[float]) -> dict[str, Any]:
    """Return the throughput as a multiple of another engine's, from the rounds."""
    ratio = mean_ratio([math.log(theirs / ours) for ours, theirs in zip(own, other, strict=True)])
    return {"ratio": ratio.value, "interval": [ratio.interval.low, ratio.interval.high]}


if __name__ == "__main__":
    main()
