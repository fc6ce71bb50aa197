"""What results say of an engine: notes only where they are true, and null where a value is unknown."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.core import TensorType
from passsearch.engines import EnginePlan, EngineRecord, EngineSpec, compare, engine_row, worker
from passsearch.engines.adapters.torch import mean_calls

PLAN = EnginePlan(processes=2, rounds=2, slow_s=1.0)
SPEC = EngineSpec("mine", "mine", Path("python"), Path("network.onnx"))


def record(*visits: list[list[float]], memory_bytes: tuple[int, ...] = (10**6,)) -> EngineRecord:
    opened = [{"open_s": 0.5, "threads": 1} for _ in visits]
    return EngineRecord(SPEC, opened, [visits[0][0][0]], list(memory_bytes), [1e-6], list(visits))


def test_only_a_slow_engine_is_called_slow() -> None:
    assert engine_row(record([[3.0]], [[2.0]]), plan=PLAN)["note"] == "slow: one inference in 2 of 2 processes"
    assert "note" not in engine_row(record([[0.2], [0.2]], [[0.2], [0.1]]), plan=PLAN)
    stopped = record([[0.2], [0.2]], [[0.2]])
    stopped.not_revived = "the process was killed by SIGABRT at `open`"
    assert engine_row(stopped, plan=PLAN)["note"] == (
        "fewer rounds in 1 of 2 processes: "
        "the network did not load again after a crash (the process was killed by SIGABRT at `open`)"
    )


FRAGILE = """
import os
from pathlib import Path


class Engine:
    threads, versions, settings = 1, {}, {}

    def outputs(self, inputs):
        return list(inputs.values())

    def infer(self):
        pass

    def requests(self, count):
        os.abort()


def open_engine(model, *, is_reference=False, **options):
    mark = Path(model).with_suffix(".loaded")
    if mark.exists():
        raise RuntimeError("loaded before")
    if not is_reference:
        mark.touch()
    return Engine()
"""
"""An engine that ends its process when several inferences run at the same time, and that loads once only."""


def test_an_engine_that_does_not_load_again_is_not_called_slow(tmp_path: Path) -> None:
    (tmp_path / "fragile_engine.py").write_text(FRAGILE)
    (tmp_path / "network").touch()
    paths, types = {"PYTHONPATH": str(tmp_path)}, {"x": TensorType((1,), "float32")}
    spec = EngineSpec("fragile", "fragile_engine", Path(sys.executable), tmp_path / "network", environment=paths)
    reference = replace(spec, name="reference", settings={"is_reference": True})
    plan = EnginePlan(threads=1, processes=1, rounds=2, visit_s=0.01, pause_s=0.0, requests=(2,))
    comparison = compare([spec], reference=reference, types=types, plan=plan, folder=tmp_path / "rounds")
    note = engine_row(comparison.records[0], plan=plan)["note"]
    assert note.startswith("fewer rounds in 1 of 1 processes: the network did not load again after a crash (")
    assert "RuntimeError: loaded before" in note


def test_memory_that_the_system_does_not_show_is_null_with_the_reason() -> None:
    row = engine_row(record([[0.2], [0.2]], memory_bytes=()), plan=PLAN)
    assert row["memory_bytes"] is None
    assert row["note"].startswith("memory is unknown: ")


ADAPTER = """
class Engine:
    threads, versions, settings = 1, {}, {}

    def outputs(self, inputs):
        return list(inputs.values())


def open_engine(model, **options):
    return Engine()
"""


@pytest.mark.parametrize(("lines", "has_memory"), [("VmRSS: 2 kB", False), ("VmRSS: 2 kB\nVmHWM: 5 kB", True)])
def test_a_worker_without_its_largest_memory_answers_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str, has_memory: bool
) -> None:
    (tmp_path / "echo_engine.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(tmp_path)
    status = tmp_path / "status"
    status.write_text(lines)
    monkeypatch.setattr(worker, "STATUS", status)
    np.savez(tmp_path / "inputs.npz", x=np.zeros(1))
    server = worker.Server()
    request: dict[str, Any] = {"adapter": "echo_engine", "modules": [], "model": "", "threads": 1, "settings": {}}
    server.open({**request, "inputs": str(tmp_path / "inputs.npz")})
    answer = server.outputs({"folder": str(tmp_path)})
    assert answer["memory_bytes"] == (3 * 1024 if has_memory else None)


def test_the_calls_of_a_name_are_those_of_one_inference() -> None:
    sums = [("conv", 30, 6.0), ("relu", 10, 1.0), ("alloc", 1, 0.1), ("free", 10, 0.0)]
    measured = EngineRecord(SPEC, [{"open_s": 0.5}], [0.2], [1], [1e-6], [[[0.2], [0.2]]])
    measured.kernels = mean_calls(sums, runs=10)
    kernels: Mapping[str, Any] = engine_row(measured, plan=PLAN)["kernels"]
    assert {row["name"]: row["calls"] for row in kernels["by_name"]} == {"conv": 3, "relu": 1, "alloc": 1}
    assert kernels["by_name"][0]["seconds"] == pytest.approx(0.6)
    assert kernels["sum_s"] == pytest.approx(0.71)
