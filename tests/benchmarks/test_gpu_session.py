"""The measurements of a GPU machine, made on the CPU."""

import argparse
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from passsearch.measure import Trace, nvml, sensors
from passsearch.toolchain import Toolchain

ROOT = Path(__file__).parents[2]
SCRIPT = "benchmarks.gpu_session"
METRICS = {"throughput_per_s", "latency_s", "compile_s", "power_w", "energy_j", "memory_bytes", "temperature_c"}
METRICS |= {"utilisation"}


@pytest.fixture
def module(load_benchmark: Callable[[str], Any]) -> Any:
    """The module ``benchmarks/gpu_session.py``."""
    return load_benchmark("gpu_session")


def answer(settings: Any, seconds: float) -> dict[str, Any]:
    return {"answer": 42, "target": settings.target}


def die(settings: Any, seconds: float) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def fail(settings: Any, seconds: float) -> dict[str, Any]:
    raise KeyError("no such thing")


def hang(settings: Any, seconds: float) -> dict[str, Any]:
    """Start a program that outlives its parent, and wait for ever."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    settings.keep({"answer": "half"})
    settings.out.with_name("child").write_text(str(child.pid))
    time.sleep(600)
    return {}


def test_a_step_that_dies_hangs_or_fails_costs_its_own_row_only(module: Any, tmp_path: Path) -> None:
    works = {"first": answer, "died": die, "failed": fail, "hung": hang, "last": answer}
    # A tenth of the others' time for the one that hangs, so that it alone is ended.
    plan = [module.Step(("steps", name), 1.0 if work is hang else 10.0, work) for name, work in works.items()]
    out = tmp_path / "session.json"
    options = argparse.Namespace(minutes=1.0, target="host", toolchain="this", out=out, pytorch=None)
    module.run_session([plan], options, end_s=time.monotonic() + 40.0)
    steps = json.loads(out.read_text())["steps"]
    assert steps["first"]["answer"] == steps["last"]["answer"] == 42
    assert "ended with status -9" in steps["died"]["unavailable"]
    assert steps["failed"]["unavailable"] == "KeyError: 'no such thing'"
    assert "was ended after" in steps["hung"]["unavailable"] and steps["hung"]["answer"] == "half"
    child = int((tmp_path / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_results_are_written_after_every_step(module: Any, tmp_path: Path) -> None:
    out, seen = tmp_path / "session.json", tmp_path / "seen.json"

    def look(settings: Any, seconds: float) -> dict[str, Any]:
        seen.write_text(out.read_text())
        return {}

    plan = [module.Step(("machine",), 1.0, answer), module.Step(("look",), 1.0, look)]
    options = argparse.Namespace(minutes=1.0, target="host", toolchain="this", out=out, pytorch=None)
    module.run_session([plan], options, end_s=time.monotonic() + 60.0)
    assert json.loads(seen.read_text())["machine"]["answer"] == 42


def test_queues_run_at_once_and_each_keeps_its_order(module: Any, tmp_path: Path) -> None:
    out, here, there = (tmp_path / name for name in ("session.json", "here", "there"))

    def meet(settings: Any, seconds: float, own: Path, other: Path) -> dict[str, Any]:
        own.touch()
        while not other.exists():
            time.sleep(0.01)
        return {"queue": settings.queue}

    queues = [
        [module.Step(("here",), 1.0, partial(meet, own=here, other=there)), module.Step(("last",), 1.0, answer)],
        [module.Step(("there",), 1.0, partial(meet, own=there, other=here))],
    ]
    options = argparse.Namespace(minutes=1.0, target="host", toolchain="this", out=out, pytorch=None)
    document = module.run_session(queues, options, end_s=time.monotonic() + 60.0)
    assert (document["here"]["queue"], document["there"]["queue"], document["last"]["answer"]) == (0, 1, 42)


def test_a_network_has_a_queue_of_its_own_on_many_cores(module: Any) -> None:
    queues = module.make_plan(["resnet50", "bert_base"], at_once=True)
    assert [queue[0].name for queue in queues] == ["machine", "networks resnet50 search", "networks bert_base search"]


def test_networks_without_a_search_can_be_timed_alone(module: Any) -> None:
    for at_once, queues in ((True, 3), (False, 1)):
        plan = module.make_plan([], ["gpt2", "resnet50@8"], at_once=at_once)
        assert len(plan) == queues
        assert [step.name for queue in plan for step in queue] == [
            "machine",
            "networks gpt2 pytorch",
            "networks resnet50@8 pytorch",
        ]


def test_the_first_precision_of_every_network_is_timed_first(module: Any) -> None:
    (queue,) = module.make_plan(["bert_base"], ["gpt2"], at_once=False, precisions=["float16", "tf32"])
    assert [step.name for step in queue] == [
        "machine",
        "networks bert_base pytorch float16",
        "networks gpt2 pytorch float16",
        "networks bert_base pytorch tf32",
        "networks gpt2 pytorch tf32",
    ]
    assert len(module.make_plan(["bert_base"], ["gpt2"], at_once=True, precisions=["tf32"])) == 3


def test_a_table_without_rows_is_left_out(load_benchmark: Callable[[str], Any]) -> None:
    engines = {"torch": {"median_s": 0.002, "throughput of torch": {"by fastest": {"ratio": 1.0, "interval": None}}}}
    text = load_benchmark("gpu.tables").tables({"networks": {"gpt2": {"pytorch": {"rows": engines}}}})
    assert text.count("network") == 1 and "| gpt2 | torch | 2 |" in text


def test_the_plan_begins_with_the_machine_and_takes_ten_minutes_in_all(module: Any) -> None:
    [plan] = module.make_plan(["resnet50", "bert_base", "mobilenet_v2"], at_once=False)
    assert [step.name for step in plan[:3]] == ["machine", "small", "networks resnet50 search"]
    assert plan.index(next(step for step in plan if step.name == "tests")) < 7
    assert sum(step.seconds for step in plan) <= 600


def session(toolchain: Toolchain, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", SCRIPT, "bert_tiny", "--toolchain", toolchain.name, "--out", str(out), *options]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 0, process.stderr[-2000:]
    document: dict[str, Any] = json.loads(out.read_text())
    return document


@pytest.mark.slow
def test_every_metric_of_default_and_tuned_is_read_or_null_with_a_reason(relax: Toolchain, tmp_path: Path) -> None:
    document = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "6")
    network = document["networks"]["bert_tiny"]
    for row in (network["measure"]["rows"]["default"], network["measure"]["rows"]["tuned"]):
        assert row.keys() >= METRICS and row["throughput_per_s"] > 0 and row["compile_s"] > 0
        assert all(row[metric] is not None or row["unavailable"][metric] for metric in METRICS)
    assert network["measure"]["noise_floor"] is not None
    assert document["tests"].keys() & {"passed", "skipped"}
    rules = [row for name, row in document["rules"].items() if name.startswith("transposed-schedule-cpu")]
    assert len(rules) >= 2 and all(row["compile_s"] > 0 for row in rules)


@pytest.mark.toolchain
def test_a_session_without_time_has_a_reason_for_every_step(relax: Toolchain, tmp_path: Path) -> None:
    document = session(relax, tmp_path / "session.json", "--target", "host", "--minutes", "0")
    for row in (document["machine"], document["networks"]["bert_tiny"]["measure"], document["tests"]):
        assert "were left" in row["unavailable"]


@pytest.mark.slow
def test_the_results_are_the_readings_of_the_gpu_meter(
    relax: Toolchain,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    recordings: Any,
    nvml_library: Any,
    play: Any,
) -> None:
    """The CPU works; its sensor is a recorded RTX 3090 under load."""
    recording = recordings.load("rtx3090")
    play(recording, lambda: 1.5 + time.monotonic() % 4)
    meter = nvml.NvmlMeter(nvml_library.nvmlDeviceGetUUID(0))
    monkeypatch.setattr(sensors, "_probe_cpu", lambda: sensors.Sensors({"name": "recorded"}, meter.unavailable, meter))
    out = tmp_path / "session.json"
    options = ["bert_tiny", "--toolchain", relax.name, "--out", str(out), "--target", "host", "--minutes", "9"]
    monkeypatch.setattr(sys, "argv", [SCRIPT, *options])
    monkeypatch.syspath_prepend(str(ROOT))
    runpy.run_module(SCRIPT, run_name="__main__")
    rows = json.loads(out.read_text())["networks"]["bert_tiny"]["measure"]["rows"]
    for row in (rows["default"], rows["tuned"]):
        assert 415 < row["power_w"]["median"] <= row["power_w"]["max"] < 422
        assert 64 <= row["temperature_c"]["start"] <= row["temperature_c"]["max"] <= 68
        assert row["energy_j"] is None and row["unavailable"]["energy_j"] == "NVML: Not Supported"
        assert 1.9e9 < row["conditions"]["clocks"][0] < 2e9
    trace = Trace.load(out.with_suffix(".trace.jsonl"))
    assert len(trace.readings) > 10 and all(413 < (each.power_w or 0) < 422 for each in trace.readings)
