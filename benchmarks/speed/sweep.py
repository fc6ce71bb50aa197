"""Compares kernels of random operators with ONNX Runtime's time for the same node and with the roofline.

``python -m benchmarks.speed.sweep`` draws nodes (``sweep_nodes.py``), builds each by a sequence for CPUs, and takes the
fastest of several rounds in turns with ONNX Runtime on two threads, at real-time priority. It goes on where it ended.
``--before ROWS`` compares with another version's rows and writes ``benchmarks/results/sweep.json``, from which
``--table`` prints Markdown. ``--guard`` ends with an error if a node that was not slow is far slower than ONNX Runtime.
Outputs that deviate from ONNX Runtime's by more than float32 rounds end it with an error too.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime

from benchmarks.common import RESULTS, ROOT, first_in_line, markdown, note, options, read, today, write
from benchmarks.speed.sweep_nodes import KINDS, Draw, draw_node
from passsearch.catalog import load
from passsearch.measure import probe
from passsearch.toolchain import cache_folder, get_toolchain, host_target
from passsearch.worker import Peaks, best_peaks

OUT = RESULTS / "sweep.json"
PLAIN, CHANNELS_LAST = "schedule-cpu", "nhwc-schedule-cpu"
THREADS, ROUNDS, TURN_S = 2, 3, 0.012
NODES = 2000

REST_S = 0.2
"""Pause before a turn, in which the threads of the other engine end to wait for work: they take a core meanwhile."""

ENOUGH = 1.25
"""Time as a multiple of ONNX Runtime's up to which a convolution is not tried by the second sequence."""

SLOW, FAR_SLOWER = 1 / 3, 1 / 4
"""Throughput as a share of ONNX Runtime's from which a node counts as slow, and, as slower than noise makes it."""

ROUNDING = 1e-3
"""Largest deviation of an output, as a share of the largest value, that is rounding."""

LEAST_S = 20e-6
"""Shortest time of ONNX Runtime that is judged: of a shorter one, most is the call."""


class Server:
    """The process that builds and times kernels of TVM."""

    def __init__(self) -> None:
        toolchain = get_toolchain("relax")
        catalog = load(toolchain.dialect)
        pipelines = {name: str(catalog.sequence(name).pipeline) for name in (PLAIN, CHANNELS_LAST)}
        factories = {name: entry.factory for name, entry in catalog.entries.items()}
        self._process = subprocess.Popen(
            [toolchain.python, "-m", "benchmarks.speed.sweep_kernels"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
            env={**os.environ, "TVM_NUM_THREADS": str(THREADS)},  # by itself, TVM uses half of the cores
        )  # fmt: skip
        self.pid = self._process.pid
        self._say({"target": host_target(toolchain), "pipelines": pipelines, "factories": factories})

    def _say(self, what: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def ask(self, verb: str, *arguments: Any) -> Any:
        self._say([verb, *arguments])
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ChildProcessError("the process of TVM has ended")
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Refused(Exception):
    """ONNX Runtime does not take a node."""


class Rival:
    """A node in ONNX Runtime, with its inputs bound."""

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Any]) -> None:
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads, settings.log_severity_level = THREADS, 3
        self._session = onnxruntime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        for name, array in inputs.items():
            self._binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)

    def outputs(self) -> list[Any]:
        self._session.run_with_iobinding(self._binding)
        return list(self._binding.copy_outputs_to_cpu())

    def time(self, seconds: float) -> float:
        times: list[float] = []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            self._session.run_with_iobinding(self._binding)
            times.append(time.perf_counter() - begin)
        return min(times)


def measure(number: int, server: Server, peaks: Peaks, *, folder: Path, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the times of one node, its roofline and how far its outputs deviate.

    Args:
        number: Number of the node.
        server: The process of TVM.
        peaks: What the machine can do.
        folder: Folder for files.
        before: Row of the same node of another version; if its kernels are the same, so are its times.
    """
    kind, draw = draw_node(number)
    model, row = draw.model(), {"number": number, "kind": kind, "node": draw.text, "sequences": {}}
    model_file, values = folder / "node.onnx", folder / "inputs.npz"
    onnx.save(model, model_file)
    np.savez(values, **draw.inputs)
    names = [CHANNELS_LAST, PLAIN] if "Conv" in draw.nodes[0].op_type else [PLAIN]
    rival, expected = None, None
    for name in names:
        known = before.get("sequences", {}).get(name, {}).get("identity", "")
        built = server.ask("build", str(model_file), str(values), name, known)
        if known and built.get("identity") == known:
            return dict(before)
        row["sequences"][name] = built
        if rival is None:
            try:
                rival = Rival(model, draw.inputs)
                expected = rival.outputs()
            except Exception as error:  # its errors have no class in common
                raise Refused(str(error)) from error
            row["roofline_s"] = peaks.least_s(2 * draw.operations, _moved_bytes(draw, expected))
        if "failure" not in built:
            built["deviation"] = _deviation(expected, folder / f"{name}.npz")
        row["rival_s"] = _time(name, built, server=server, rival=rival)
        if built.get("seconds", math.inf) < row["rival_s"] * ENOUGH:
            break
    return row


def _time(name: str, built: dict[str, Any], *, server: Server, rival: Rival) -> float:
    """Add the time of a network, unless it was not built, and return ONNX Runtime's, in turns."""
    own, other = [], []
    with first_in_line(server.pid):
        for _ in range(ROUNDS):
            if "failure" not in built:
                time.sleep(REST_S)
                own.append(server.ask("time", name, TURN_S))
            time.sleep(REST_S)
            other.append(rival.time(TURN_S))
    if own:
        built["seconds"] = min(own)
    return min(other)


def _moved_bytes(draw: Draw, outputs: Sequence[Any]) -> float:
    """Return the bytes that a node moves at least; of what it gathers from, what it takes."""
    arrays = [*draw.inputs.values(), *draw.weights.values(), *outputs]
    least = {"Gather": 2 * outputs[0].nbytes, "Slice": 2 * outputs[0].nbytes}.get(draw.nodes[0].op_type)
    return float(least or sum(array.nbytes for array in arrays))


def _deviation(expected: Sequence[Any], file: Path) -> float:
    with np.load(file) as arrays:
        pairs = list(zip(expected, arrays.values(), strict=True))
    return max(
        _largest(np.abs(one - other.reshape(one.shape))) / (_largest(np.abs(one)) or 1.0) for one, other in pairs
    )


def _largest(values: Any) -> float:
    return float(np.max(values, initial=0.0))


def shares(row: Mapping[str, Any]) -> tuple[float, float]:
    """Return the throughput as a share of ONNX Runtime's and of the roofline; one of a call is not judged."""
    seconds = min(built.get("seconds", math.inf) for built in row["sequences"].values())
    return row["rival_s"] / seconds, row["roofline_s"] / seconds


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["rival_s"] >= LEAST_S]


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the numbers of slow nodes, and counts by kind.

    Counts are of nodes that are judged, those below a third and a half of ONNX Runtime's throughput, and those below a
    third and a half of the roofline.
    """
    counts = {kind: [0] * 5 for kind in KINDS}
    for row in judged(rows):
        other, roofline = shares(row)
        found = [True, other < SLOW, other < 1 / 2, roofline < SLOW, roofline < 1 / 2]
        counts[row["kind"]] = [old + new for old, new in zip(counts[row["kind"]], found, strict=True)]
    return {"slow": slow_nodes(rows, SLOW), "counts": counts}


def slow_nodes(rows: Sequence[Mapping[str, Any]], share: float) -> list[int]:
    return sorted(row["number"] for row in judged(rows) if shares(row)[0] < share)


def wrong_nodes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the nodes with outputs that deviate by more than rounding, or are NaN where the other's are not."""
    return [
        f"{row['number']} ({row['kind']}, {name}: {built['deviation']:.1e})"
        for row in rows
        for name, built in row["sequences"].items()
        if not built.get("deviation", 0.0) <= ROUNDING
    ]


def table(document: Mapping[str, Any]) -> str:
    """Return Markdown: a line for each kind, and one for all, with counts before and after."""
    sides = [document[side]["counts"] for side in ("before", "after")]
    for side in sides:
        side["all"] = [sum(column) for column in zip(*side.values(), strict=True)]
    lines = [
        [kind, after[0], *(f"{old} / {new}" for old, new in zip(sides[0][kind][1:], after[1:], strict=True))]
        for kind, after in sides[1].items()
    ]
    return markdown(("kind", "nodes", "below a third", "below a half", "a third of roofline", "a half"), lines)


@contextmanager
def served() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.end()


def sweep(file: Path, numbers: Sequence[int], *, before: Mapping[int, Any], seconds: float) -> None:
    """Measure the nodes that a file does not have yet, for at most so many seconds."""
    rows, end = list(read(file).get("rows", [])), time.monotonic() + seconds
    done = {row["number"] for row in rows}
    peaks = best_peaks(THREADS, probe("cpu").device, cache_folder() / "peaks")
    with TemporaryDirectory() as folder, served() as server:
        for number in numbers:
            if number in done or time.monotonic() > end:
                continue
            try:
                rows.append(measure(number, server, peaks, folder=Path(folder), before=before.get(number, {})))
            except Refused as error:
                note(f"{number}: {error}")
                continue
            if len(rows) % 20 == 0:
                note(rows[-1]["kind"], len(rows), len(numbers))
                write(file, {"rows": rows})
    write(file, {"rows": rows})


def compare(before: Mapping[int, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document of two versions, of the nodes that both have."""
    after = [row for row in rows if row["number"] in before]
    peaks = best_peaks(THREADS, probe("cpu").device, cache_folder() / "peaks")
    return {
        "date": today(), "device": probe("cpu").device, "peaks": asdict(peaks), "nodes": len(after),
        "before": summary([before[row["number"]] for row in after]), "after": summary(after),
    }  # fmt: skip


def rows_of(file: Path) -> list[Mapping[str, Any]]:
    return list(read(file).get("rows", []))


def main() -> None:
    arguments = options(
        __doc__, number=NODES, rows=("runs/sweep.json", "file of all rows"), seconds=(1e5, "longest time"),
        before=("", "rows of another version; of a node whose kernels are the same, they are kept"),
        table=(False, "print the table"), guard=(False, "fail if a node has become slow"),
    )  # fmt: skip
    if arguments.table:
        print(table(read(OUT)))
        return
    before = {row["number"]: row for row in rows_of(Path(arguments.before))} if arguments.before else {}
    known = {*read(OUT)["after"]["slow"]}  # before this run's rows take their place
    sweep(Path(arguments.rows), range(arguments.number), before=before, seconds=arguments.seconds)
    rows = rows_of(Path(arguments.rows))
    if before:
        write(OUT, compare(before, rows))
    if wrong := wrong_nodes(rows):
        raise SystemExit(f"nodes with wrong outputs: {', '.join(wrong)}")
    slower = sorted({*slow_nodes(rows, FAR_SLOWER)} - known)
    if arguments.guard and slower:
        raise SystemExit(f"nodes that have become slow: {slower}")


if __name__ == "__main__":
    main()
