"""Builds and times networks for ``sweep.py``, by an interpreter with TVM's Relax: a request and an answer a line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from passsearch.core import BuildOptions, Pipeline
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax.bridge import RelaxBridge


class Kernels:
    """The networks of one request."""

    def __init__(self, target: str, pipelines: Mapping[str, str], factories: Mapping[str, str]) -> None:
        self._bridge, self._factories = RelaxBridge(target), factories
        self._pipelines = {name: Pipeline.parse(text) for name, text in pipelines.items()}
        self._built: dict[str, Any] = {}

    def build(self, model: str, values: str, name: str, known: str) -> dict[str, Any]:
        """Build a network by a pipeline; return its identity, why it is not built, and its outputs and kernels.

        A network of a known identity is not built.
        """
        self._built.pop(name, None)
        try:
            module = self._apply(Path(model), name)
            identity = self._bridge.identity(module)
            built = {} if identity == known else self._build(module, dict(np.load(values)), Path(model), name)
        except Exception as error:  # noqa: BLE001  # the sweep goes on with the next node
            return {"failure": f"{type(error).__name__}: {error}".strip().splitlines()[-1][:200]}
        return {"identity": identity, **built}

    def _apply(self, model: Path, name: str) -> Any:
        module = self._bridge.load(ModelSource(path=model, format="onnx", inputs={}))
        for step in self._pipelines[name].passes:
            module = self._bridge.apply(module, step, factory=self._factories[step.name])
        return module

    def _build(self, module: Any, inputs: Mapping[str, Any], model: Path, name: str) -> dict[str, Any]:
        with TemporaryDirectory() as scratch:
            artifact = self._bridge.build(module, BuildOptions(opt_level=0), Path(scratch))
            executable = self._built[name] = self._bridge.open(artifact, "cpu:0")
            outputs = executable.run(inputs)
            calls = executable.run_by_kernel(inputs) or []
        np.savez(model.with_name(f"{name}.npz"), *outputs)
        return {"kernels": calls}

    def time(self, name: str, seconds: float) -> float:
        """Return the fastest run of at least three in so many seconds."""
        executable, times = self._built[name], []
        end = time.perf_counter() + seconds
        while len(times) < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            executable.run_repeatedly(1)
            times.append(time.perf_counter() - begin)
        return min(times)


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    kernels = Kernels(**json.loads(input()))
    for line in sys.stdin:
        verb, *arguments = json.loads(line)
        answers.write(json.dumps(getattr(kernels, verb)(*arguments)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
