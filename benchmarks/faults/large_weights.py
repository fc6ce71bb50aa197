"""Measures the memory of a network of 1.6 GB of weights.

``python -m benchmarks.faults.large_weights FOLDER``: the network is a chain of feed-forward blocks in ONNX
with external data, its weights random. Each stage is one command of passsearch in a process of its own. A thread adds
up the proportional set size (PSS) of that process and of all its descendants, in which a page that several of them map
counts once. ``peak`` is the largest sum, and ``private`` the largest sum of what no file backs, which the system cannot
drop; both are multiples of the weights.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from onnx import TensorProto, helper

from benchmarks.common import RESULTS, onnx_model, options, today, write
from passsearch.measure import probe

WIDTH, HIDDEN = 4096, 6144
PERIOD_S = 0.05


def write_network(folder: Path, *, blocks: int) -> tuple[Path, int]:
    """Write the network; return its path and the bytes of its weights."""
    nodes, tensors, random, last = [], [], np.random.default_rng(0), "x"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "weights.bin").open("wb") as file:
        for block in range(blocks):
            for name, shape in ((f"up{block}", (WIDTH, HIDDEN)), (f"down{block}", (HIDDEN, WIDTH))):
                values = random.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[0]))
                tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT)
                tensor.data_location = TensorProto.EXTERNAL
                place = {"location": "weights.bin", "offset": file.tell(), "length": values.nbytes}
                for key, value in place.items():
                    tensor.external_data.add(key=key, value=str(value))
                file.write(values.data)
                tensors.append(tensor)
            nodes += [
                helper.make_node("MatMul", [last, f"up{block}"], [f"a{block}"]),
                helper.make_node("Relu", [f"a{block}"], [f"b{block}"]),
                helper.make_node("MatMul", [f"b{block}", f"down{block}"], [f"c{block}"]),
                helper.make_node("Add", [f"c{block}", last], [f"d{block}"]),
            ]
            last = f"d{block}"
        size = file.tell()
    model = onnx_model(nodes, {"x": ("float32", [1, WIDTH])}, {last: [1, WIDTH]}, {})
    model.graph.initializer.extend(tensors)
    path = folder / "network.onnx"
    path.write_bytes(model.SerializeToString())
    return path, size


class Watch(threading.Thread):
    """Samples the memory of a process and of its descendants until it is stopped."""

    def __init__(self, process: int) -> None:
        super().__init__(daemon=True)
        self._root, self._done = psutil.Process(process), threading.Event()
        self.peak = self.private = 0

    def run(self) -> None:
        taken_s = 0.0
        # A reading stops a process for a moment, the longer the more memory it has.
        while not self._done.wait(max(PERIOD_S, 4 * taken_s)):
            begin = time.perf_counter()
            try:
                sizes = [*map(_memory, [self._root, *self._root.children(recursive=True)])]
            except psutil.NoSuchProcess:
                return
            taken_s = time.perf_counter() - begin
            self.peak = max(self.peak, sum(size["Pss:"] for size in sizes))
            self.private = max(self.private, sum(size["Pss_Anon:"] for size in sizes))

    def stop(self) -> None:
        self._done.set()
        self.join()


def _memory(process: psutil.Process) -> dict[str, int]:
    """Return PSS and its anonymous part in bytes; 0 for a process that has ended."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:]
        return {fields[0]: int(fields[1]) * 1024 for line in lines if (fields := line.split())}
    except OSError:
        return {"Pss:": 0, "Pss_Anon:": 0}


def stage(command: Sequence[str], *, folder: Path, weights: int) -> dict[str, Any]:
    """Run one command; return its peaks in multiples of the weights, and its seconds."""
    begin, environment = time.perf_counter(), {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    with (folder / f"{command[0]}.log").open("w") as log:
        words = [sys.executable, "-m", "passsearch", *command]
        process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=environment)
        watch = Watch(process.pid)
        watch.start()
        status = process.wait()
        watch.stop()
    row = {"exit": status, "seconds": round(time.perf_counter() - begin, 1)}
    row |= {"peak": round(watch.peak / weights, 2), "private": round(watch.private / weights, 2)}
    print(command[0], row, flush=True)
    return row


def main() -> None:
    arguments = options(
        __doc__, ("folder", Path), out=RESULTS / "large_weights.json", blocks=8, toolchain="relax", timeout=240
    )
    folder, chosen = arguments.folder, ["--toolchain", arguments.toolchain]
    network, weights = write_network(folder, blocks=arguments.blocks)
    limits = ["--trials", "3", "--timeout", str(arguments.timeout), "--fresh", "--rivals", "none"]
    limits += ["--out", str(folder / "run")]
    stages = (
        ["analyze", str(network), *chosen],
        ["tune", str(network), *chosen, *limits],
        ["export", str(folder / "run"), "--to", str(folder / "deployment"), "--replay"],
    )
    rows = {command[0]: stage(command, folder=folder, weights=weights) for command in stages}
    about = {"date": today(), "device": dict(probe("cpu").device), "toolchain": arguments.toolchain}
    write(arguments.out, {**about, "weights_bytes": weights, "stages": rows})


if __name__ == "__main__":
    main()
