"""Measures the memory of a network of 1.6 GB of weights: ``python -m benchmarks.faults.large_weights --out FILE.json``.

The network is a chain of feed-forward blocks in ONNX with external data, its weights random. Each stage is one command
of passsearch in a process of its own. A thread adds up the proportional set size (PSS) of that process and of all its
descendants, in which a page that several of them map counts once. ``peak`` is the largest sum, and ``private`` the
largest sum of what no file backs, which the system cannot drop.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper

from passsearch.measure import probe

WIDTH, HIDDEN, BLOCKS = 4096, 6144, 8
PERIOD_S = 0.05
PSS, ANONYMOUS = "Pss:", "Pss_Anon:"


def write_network(folder: Path, *, blocks: int) -> tuple[Path, int]:
    """Write the network unless it exists; return its path and the bytes of its weights."""
    path, weights = folder / "network.onnx", folder / "weights.bin"
    nodes: list[onnx.NodeProto] = []
    initializers: list[onnx.TensorProto] = []
    random, offset, last = np.random.default_rng(0), 0, "x"
    folder.mkdir(parents=True, exist_ok=True)
    with weights.open("wb") as file:
        for block in range(blocks):
            for name, shape in (("up", (WIDTH, HIDDEN)), ("down", (HIDDEN, WIDTH))):
                values = random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
                file.write(values.data)
                initializers.append(_external(f"{name}{block}", shape, offset=offset, length=values.nbytes))
                offset += values.nbytes
            nodes += [
                helper.make_node("MatMul", [last, f"up{block}"], [f"a{block}"]),
                helper.make_node("Relu", [f"a{block}"], [f"b{block}"]),
                helper.make_node("MatMul", [f"b{block}", f"down{block}"], [f"c{block}"]),
                helper.make_node("Add", [f"c{block}", last], [f"d{block}"]),
            ]
            last = f"d{block}"
    types = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, WIDTH]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "feed_forward", types[:1], types[1:], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path, offset


def _external(name: str, shape: Sequence[int], *, offset: int, length: int) -> onnx.TensorProto:
    tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "weights.bin", "offset": offset, "length": length}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


class Watch(threading.Thread):
    """Samples the memory of a process and of its descendants until it is stopped."""

    def __init__(self, process: int) -> None:
        """Prepare a watch of the process with this id."""
        super().__init__(daemon=True)
        self._root, self._done = psutil.Process(process), threading.Event()
        self.peak, self.private = 0, 0
        self.at_peak: list[dict[str, Any]] = []

    def run(self) -> None:
        """Sample."""
        taken_s = 0.0
        # A reading stops a process for a moment, the longer the more memory it has.
        while not self._done.wait(max(PERIOD_S, 4 * taken_s)):
            begin = time.perf_counter()
            try:
                processes = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            rows = [row for process in processes if (row := _memory(process))]
            total, taken_s = sum(row[PSS] for row in rows), time.perf_counter() - begin
            self.private = max(self.private, sum(row[ANONYMOUS] for row in rows))
            if total > self.peak:
                self.peak, self.at_peak = total, [row for row in rows if row[PSS] > 100e6]

    def stop(self) -> None:
        """Stop sampling."""
        self._done.set()
        self.join()


def _memory(process: psutil.Process) -> dict[str, Any] | None:
    """Return name, PSS and its anonymous part in bytes; ``None`` for a process that has ended."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {fields[0]: int(fields[1]) * 1024 for line in lines if (fields := line.split())}
        return {"process": process.pid, PSS: sizes[PSS], ANONYMOUS: sizes[ANONYMOUS]}
    except (OSError, psutil.NoSuchProcess, KeyError):
        return None


def stage(command: Sequence[str], *, cache: Path, weights: int, log: Path) -> dict[str, Any]:
    """Run one command; return its peaks in multiples of the weights, and its seconds."""
    begin = time.perf_counter()
    with log.open("w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, "XDG_CACHE_HOME": str(cache)}
        )
        watch = Watch(process.pid)
        watch.start()
        status = process.wait()
        watch.stop()
    return {
        "exit": status,
        "seconds": round(time.perf_counter() - begin, 1),
        "peak": round(watch.peak / weights, 2),
        "private": round(watch.private / weights, 2),
        "at_peak": [[round(row[PSS] / weights, 2), round(row[ANONYMOUS] / weights, 2)] for row in watch.at_peak],
    }


def main() -> None:
    """Measure all stages, write the JSON and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/large_weights"))
    parser.add_argument("--blocks", type=int, default=BLOCKS)
    parser.add_argument("--toolchain", default="relax")
    parser.add_argument("--timeout", type=int, default=240)
    arguments = parser.parse_args()
    network, weights = write_network(arguments.folder, blocks=arguments.blocks)
    run, deployment = arguments.folder / "run", arguments.folder / "deployment"
    passsearch = [sys.executable, "-m", "passsearch"]
    limits = ["--trials", "3", "--timeout", str(arguments.timeout), "--fresh"]
    chosen = ["--toolchain", arguments.toolchain]
    stages = {
        "analyze": [*passsearch, "analyze", str(network), *chosen],
        "tune": [*passsearch, "tune", str(network), *chosen, *limits, "--out", str(run)],
        "export": [*passsearch, "export", str(run), "--to", str(deployment), "--replay"],
    }
    rows = {
        name: stage(command, cache=arguments.folder / "cache", weights=weights, log=arguments.folder / f"{name}.log")
        for name, command in stages.items()
    }
    document = {
        "date": date.today().isoformat(),
        "device": dict(probe("cpu").device),
        "toolchain": arguments.toolchain,
        "weights_bytes": weights,
        "stages": rows,
    }
    arguments.out.write_text(json.dumps(document, indent=1) + "\n")
    for name, row in rows.items():
        print(f"{name:8} peak {row['peak']:.2f}, private {row['private']:.2f} of the weights, {row['seconds']:.0f} s")


if __name__ == "__main__":
    main()
