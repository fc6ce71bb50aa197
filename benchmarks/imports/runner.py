"""Runs ONNX networks through the front end, the import and an un-tuned build of one dialect, and compares outputs."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from benchmarks.common import ROOT, today
from passsearch.core import TensorType
from passsearch.errors import PassSearchError
from passsearch.frontends.onnx_file import from_path
from passsearch.frontends.onnx_simplification import simplify_onnx
from passsearch.frontends.request import ModelRequest
from passsearch.measure import probe
from passsearch.toolchain import get_toolchain, host_target

Arrays = Sequence[Any]


@dataclass(frozen=True)
class Answer:
    """What became of one network.

    Attributes:
        state: ``ran``, ``refused`` at the import, ``unbuilt``, ``crashed``.
        reason: Why it did not run.
        outputs: The outputs by case.
    """

    state: str
    reason: str = ""
    outputs: Mapping[str, Arrays] | None = None


def conditions(dialect: str) -> dict[str, Any]:
    """Return what answers depend on beside our own code: the processor, the target, and versions."""
    toolchain = get_toolchain(dialect)
    about = {"dialect": dialect, "date": today(), "device": dict(probe("cpu").device), "target": host_target(toolchain)}
    return {**about, "tvm": toolchain.tvm_version, **{name: version(name) for name in ("onnx", "onnxruntime")}}


class ImportRunner:
    """One process of a toolchain's interpreter that imports, builds and runs networks, each in a fork."""

    def __init__(self, dialect: str, folder: Path) -> None:
        toolchain = get_toolchain(dialect)
        self._folder, self._log = folder, (folder / "compiler.log").open("w")
        self._process = subprocess.Popen(
            [toolchain.python, Path(__file__).with_name("server.py"), toolchain.dialect, host_target(toolchain)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._receive()

    def run(self, model: onnx.ModelProto, cases: Mapping[str, Mapping[str, Any]]) -> Answer:
        """Return the outputs of a network on inputs by name, for each case; the cases have equal shapes."""
        types = {name: TensorType(each.shape, str(each.dtype)) for name, each in next(iter(cases.values())).items()}
        path, data, results = (self._folder / name for name in ("network.onnx", "data.npz", "results.npz"))
        onnx.save(model, str(path))
        try:
            file = from_path(path, ModelRequest(str(path), types, None, self._folder), name="network")
            file = simplify_onnx(file, self._folder)
        except PassSearchError as error:
            return Answer("refused", str(error))
        names = {f"{case}|{place}": (case, name) for case in cases for place, name in enumerate(file.inputs)}
        np.savez(data, **{key: cases[case][name] for key, (case, name) in names.items()})
        request = {"path": str(file.path), "data": str(data), "results": str(results)}
        request |= {"inputs": {name: [kind.dtype, list(kind.shape)] for name, kind in file.inputs.items()}}
        print(json.dumps({**request, "cases": list(cases)}), file=self._process.stdin, flush=True)
        answer = self._receive()
        if file.path != path:
            file.path.unlink()
        if answer["state"] != "ran":
            return Answer(answer["state"], answer.get("reason", "").replace(str(self._folder), ""))
        with np.load(results) as arrays:
            counts = {case: sum(name.startswith(f"{case}|") for name in arrays.files) for case in cases}
            outputs = {case: [arrays[f"{case}|{place}"] for place in range(counts[case])] for case in cases}
        return Answer("ran", outputs=outputs)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
        self._log.close()

    def _receive(self) -> dict[str, str]:
        line = self._process.stdout.readline() if self._process.stdout else ""
        return dict(json.loads(line or '{"state": "crashed", "reason": "ended"}'))


def difference(actual: Arrays, expected: Arrays, *, rtol: float, atol: float) -> str:
    """Return in what outputs differ first, an empty text if they are close; what is not a number must stay so."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs for {len(expected)}"
    for place, (mine, stored) in enumerate(zip(actual, expected, strict=True)):
        # Inputs and outputs in bfloat16, which numpy lacks, are float32.
        right = stored.astype("float32") if str(stored.dtype) == "bfloat16" else stored
        if (mine.dtype, mine.shape) != (right.dtype, right.shape):
            return f"output {place} is {mine.dtype}{list(mine.shape)}, not {right.dtype}{list(right.shape)}"
        same = mine == right
        if right.dtype.kind in "fc":
            wide = "complex128" if right.dtype.kind == "c" else "float64"
            with np.errstate(all="ignore"):
                same = np.isclose(mine.astype(wide), right.astype(wide), rtol=rtol, atol=atol, equal_nan=True)
        if not np.all(same):
            first, count = np.argmin(np.ravel(same)), int(np.size(same) - np.sum(same))
            return f"output {place}: {np.ravel(mine)[first]} for {np.ravel(right)[first]}, {count} of {mine.size}"
    return ""
