"""Runs ONNX networks through the front end, the import and an un-tuned build of one dialect, and compares outputs."""

import contextlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from passsearch.core import TensorType
from passsearch.errors import PassSearchError
from passsearch.frontends.onnx_file import from_path
from passsearch.frontends.onnx_simplification import simplify_onnx
from passsearch.frontends.request import ModelRequest
from passsearch.measure import probe
from passsearch.toolchain import get_toolchain, host_target

ROOT = Path(__file__).parents[1]
Arrays = Sequence[Any]
_ENDED = '{"state": "crashed", "reason": "the process ended"}'


@dataclass(frozen=True)
class Answer:
    """What became of one network.

    Attributes:
        state: ``ran``, ``imported`` if no more was asked for, ``refused`` at the import, ``unbuilt``, ``crashed``.
        reason: Why it did not run.
        outputs: The outputs by case.
    """

    state: str
    reason: str = ""
    outputs: Mapping[str, Arrays] | None = None


def conditions(dialect: str) -> dict[str, Any]:
    """Return what answers depend on beside our own code: the processor, the target, and versions."""
    toolchain, versions = get_toolchain(dialect), dict[str, str]()
    for name in ("onnx", "onnxruntime"):
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return {
        "dialect": dialect,
        "date": date.today().isoformat(),
        "device": dict(probe("cpu").device),
        "target": host_target(toolchain),
        "tvm": toolchain.tvm_version,
        **versions,
    }


class ImportRunner:
    """One process of a toolchain's interpreter that imports, builds and runs networks, each in a fork."""

    def __init__(self, dialect: str, folder: Path) -> None:
        toolchain = get_toolchain(dialect)
        self._folder, self._log = folder, (folder / "compiler.log").open("w")
        command = [str(toolchain.python), str(ROOT / "benchmarks" / "import_server.py")]
        self._process = subprocess.Popen(
            [*command, toolchain.dialect, host_target(toolchain)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._receive()

    def run(
        self, model: onnx.ModelProto, cases: Mapping[str, Mapping[str, Any]], *, import_only: bool = False
    ) -> Answer:
        """Return the outputs of a network on inputs by name, for each case; the cases have equal shapes."""
        inputs = next(iter(cases.values()))
        types = {name: TensorType(array.shape, str(array.dtype)) for name, array in inputs.items()}
        path, data, results = (self._folder / name for name in ("network.onnx", "data.npz", "results.npz"))
        onnx.save(model, str(path))
        try:
            file = from_path(path, ModelRequest(str(path), types, None, self._folder), name="network")
            file = simplify_onnx(file, self._folder)
        except PassSearchError as error:
            return Answer("refused", str(error))
        np.savez(
            data,
            **{
                f"{case}|{place}": given[name]
                for case, given in cases.items()
                for place, name in enumerate(file.inputs)
            },
        )
        request = {
            "path": str(file.path),
            "data": str(data),
            "results": str(results),
            "cases": [] if import_only else list(cases),
        }
        request["inputs"] = {name: [kind.dtype, list(kind.shape)] for name, kind in file.inputs.items()}
        answer = self._ask(request)
        if file.path != path:
            file.path.unlink()
        if answer["state"] != "ran":
            return Answer(answer["state"], answer.get("reason", "").replace(str(self._folder), ""))
        return Answer("ran", outputs=_outputs(results, cases))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, str]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._receive()

    def _receive(self) -> dict[str, str]:
        assert self._process.stdout is not None
        answer: dict[str, str] = json.loads(
            self._process.stdout.readline() or '{"state": "crashed", "reason": "ended"}'
        )
        return answer


def _outputs(path: Path, cases: Mapping[str, Any]) -> dict[str, Arrays]:
    with np.load(path) as results:
        return {
            case: [results[f"{case}|{place}"] for place in range(sum(n.startswith(f"{case}|") for n in results.files))]
            for case in cases
        }


def difference(actual: Arrays, expected: Arrays, *, rtol: float, atol: float) -> str:
    """Return in what outputs differ first, an empty text if they are close; what is not a number must stay so."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs for {len(expected)}"
    for place, (mine, right) in enumerate(zip(actual, expected, strict=True)):
        if (mine.dtype, mine.shape) != (right.dtype, right.shape):
            return f"output {place} is {mine.dtype}{list(mine.shape)}, not {right.dtype}{list(right.shape)}"
        is_exact = right.dtype.kind not in "fc"
        with np.errstate(all="ignore"):
            same = mine == right if is_exact else np.isclose(*_wide(mine, right), rtol=rtol, atol=atol, equal_nan=True)
        if not np.all(same):
            first = np.argmin(np.ravel(same))
            count = int(np.size(same) - np.sum(same))
            return f"output {place}: {np.ravel(mine)[first]} for {np.ravel(right)[first]}, {count} of {mine.size}"
    return ""


def _wide(*arrays: Any) -> tuple[Any, ...]:
    return tuple(array.astype("complex128" if array.dtype.kind == "c" else "float64") for array in arrays)
