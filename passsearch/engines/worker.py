"""Serves one engine over its pipe, one JSON object a line.

Its argument is the number of threads; with 0 the engine chooses it.

Requests and answers:

* ``open`` (``adapter``: a module, ``modules``: what to import first, ``model``, ``threads``, ``inputs``: an ``.npz``
  file, ``settings``): ``open_s``, ``threads``, ``versions``, ``settings``. Imports are not part of ``open_s``.
* ``outputs`` (``folder``, ``inputs``: an ``.npz`` file where they are others than those of ``open``): runs one
  inference, writes ``0.npy``, ``1.npy``, …; ``first_s``, and
  ``memory_bytes``: how much the largest memory of this process since ``open`` exceeds its memory before; null where
  the system does not say.
* ``infer`` (``longest_s``, ``most``, ``warm_up``): ``seconds`` of each inference; ``clock_s`` and ``cpu_s``: the
  monotonic clock, and the CPU time of this process, at begin and end.
* ``together`` (``requests``, ``longest_s``): runs that many inferences at the same time, one after another, until the
  time is over. ``per_s``: inferences per second; ``clock_s``, ``cpu_s``. ``unavailable`` says why the engine cannot.
* ``kernels`` (``runs``): ``kernels``, the name and seconds of each kernel of one inference; ``unavailable`` as above.
* ``classify`` (``file``: an ``.npz`` file with inputs for several runs and ``labels``): ``correct`` and ``count``.

An answer with ``failure`` says why there is no other; ``is_mistake`` is true if an option of the user's is wrong.
Standard library and numpy only.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import die_with_parent, usable_processors
from passsearch.engines.contract import Engine, Inputs, OptionError
from passsearch.engines.request_threads import RequestThreads

STATUS = Path("/proc/self/status")
"""What the kernel says of this process. Some containers leave out the largest memory, ``VmHWM``."""


class Server:
    """The requests as methods."""

    engine: Engine
    inputs: Inputs
    _memory_before_bytes: int | None = None

    def __init__(self) -> None:
        self._threads: dict[int, RequestThreads] = {}

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Import the adapter and load the network."""
        adapter = importlib.import_module(request["adapter"])
        for name in request["modules"]:
            importlib.import_module(name)
        self.inputs = _arrays(request["inputs"])
        options = {"threads": request["threads"], "inputs": self.inputs, **request["settings"]}
        self._memory_before_bytes = _reset_peak_memory()
        start = time.perf_counter()
        self.engine = adapter.open_engine(request["model"], **options)
        open_s = time.perf_counter() - start
        engine = self.engine
        about = {"threads": engine.threads, "versions": dict(engine.versions), "settings": dict(engine.settings)}
        return {"open_s": open_s, **about, "python": sys.version.split()[0]}

    def outputs(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run once and write the outputs."""
        start = time.perf_counter()
        arrays = self.engine.outputs(self.inputs if request.get("inputs") is None else _arrays(request["inputs"]))
        first_s = time.perf_counter() - start
        for place, array in enumerate(arrays):
            np.save(Path(request["folder"]) / f"{place}.npy", np.asarray(array))
        before, peak = self._memory_before_bytes, _peak_memory_bytes()
        added = None if before is None or peak is None else max(0, peak - before)
        return {"first_s": first_s, "memory_bytes": added}

    def infer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run inferences until the time is up, at least one."""
        begin_s, used_s = time.monotonic(), _cpu_s()
        if request["warm_up"]:
            self.engine.infer()  # the caches still hold the data of the engine before
        seconds: list[float] = []
        end = time.perf_counter() + request["longest_s"]
        while not seconds or (len(seconds) < request["most"] and time.perf_counter() < end):
            start = time.perf_counter()
            self.engine.infer()
            seconds.append(time.perf_counter() - start)
        return {"seconds": seconds, "clock_s": [begin_s, time.monotonic()], "cpu_s": [used_s, _cpu_s()]}

    def together(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run several inferences at the same time until the time is up, at least one in each thread."""
        count, begin_s, used_s = request["requests"], time.monotonic(), _cpu_s()
        try:
            if count not in self._threads:
                self._threads[count] = RequestThreads(self.engine.requests(count))
        except NotImplementedError as error:
            return {"unavailable": str(error), "clock_s": [begin_s, time.monotonic()], "cpu_s": [used_s, _cpu_s()]}
        self._threads[count].warm_up()
        per_s = self._threads[count].rate(request["longest_s"])
        return {"per_s": per_s, "clock_s": [begin_s, time.monotonic()], "cpu_s": [used_s, _cpu_s()]}

    def kernels(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """List the kernels of one inference."""
        try:
            return {"kernels": [list(call) for call in self.engine.kernels(request["runs"])]}
        except NotImplementedError as error:
            return {"unavailable": str(error)}

    def classify(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Count the labels that the first output's largest value hits; a rest that fills no run is left out."""
        with np.load(request["file"]) as file:
            data, labels = {name: file[name] for name in self.inputs}, file["labels"]
        size = next(iter(self.inputs.values())).shape[0]
        correct, count = 0, len(labels) // size * size
        for begin in range(0, count, size):
            part = {name: np.ascontiguousarray(array[begin : begin + size]) for name, array in data.items()}
            scores = np.asarray(self.engine.outputs(part)[0])
            if scores.shape[:-1] != (size,):
                shape = "x".join(map(str, scores.shape)) or "no dimension"
                needed = "one row of classes for each sample is needed; leave `--labels` out"
                raise ValueError(f"the first output has the shape {shape}, {needed}")
            correct += int(np.sum(np.argmax(scores, axis=-1) == labels[begin : begin + size]))
        self.engine.outputs(self.inputs)  # TVM runs what it was given last
        return {"correct": correct, "count": count}


def _arrays(file: str) -> dict[str, Any]:
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def _reset_peak_memory() -> int | None:
    """Return the memory that this process occupies now, and let its peak begin there if the system can."""
    # The peak of an import may exceed that of the network. Some containers refuse the write; the peak is then larger.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def _peak_memory_bytes() -> int | None:
    # Not `ru_maxrss` of `getrusage`: it begins with the peak of the parent that started this process.
    return _status_bytes("VmHWM")


def _status_bytes(name: str) -> int | None:
    lines = STATUS.read_text().splitlines()
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def _answer(verb: Callable[[Mapping[str, Any]], dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return verb(request)
    except Exception as error:  # noqa: BLE001 -- engines raise what they like, and a comparison goes on without them
        # Inductor gives the reason in the second line.
        message = " ".join([line.strip() for line in str(error).splitlines() if line.strip()][:2])
        if isinstance(error, OptionError):
            return {"failure": message, "is_mistake": True}
        return {"failure": f"{type(error).__name__}: {message}"[:500]}


def main() -> None:
    """Pin the process to its cores, then serve requests until the pipe closes."""
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print goes to the log
    if threads := int(sys.argv[1]):
        os.sched_setaffinity(0, usable_processors()[:threads])
    server = Server()
    for line in sys.stdin:
        request = json.loads(line)
        answer = _answer(getattr(server, request["verb"]), request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
