"""Energy and power from a meter of our own beside a real compiler: read, confirmed, and searched for."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from short_plans import SHORT

from passsearch.api.common import refuse_unreadable
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import Session, WorkerEvaluator, open_session
from passsearch.evaluate.timing import Timing
from passsearch.frontends import resolve
from passsearch.measure import SensorReading, Sensors, WindowPlan
from passsearch.objectives import parse_objective
from passsearch.report.profile import profile_html, profile_text
from passsearch.results import Profile
from passsearch.search import (
    Document,
    Run,
    RunOptions,
    named_candidate,
)
from passsearch.store import Log
from passsearch.studies import (
    ComparisonOptions,
    Side,
    compare_candidates,
    profile_candidates,
)
from passsearch.toolchain import Toolchain

WATTS = 50.0
BUSY = 500
"""Time of all runs over the fastest ones that a busy machine may show; a wrong unit makes a thousand at least."""

WINDOWS = WindowPlan(windows=2, window_s=0.2, settle_s=0.05)
PLANS = replace(
    SHORT,
    search_windows=replace(WINDOWS, windows=1),
    final_windows=WINDOWS,
    kernel_windows=replace(WINDOWS, windows=1),
)
ENERGY = (parse_objective("energy"),)


class ConstantPowerMeter:
    """A device that takes 50 W whatever it does, so that energy is proportional to time."""

    reports_disturbances = False

    def __init__(self) -> None:
        self.unavailable: dict[str, str] = {}

    def begin(self) -> None:
        pass

    def read(self) -> SensorReading:
        now_s = time.monotonic()
        return SensorReading(now_s, energy_j=WATTS * now_s, power_w=WATTS, temperature_c=40.0, utilisation=0.75)


class SilentMeter(ConstantPowerMeter):
    """A meter that reports nothing."""

    def read(self) -> SensorReading:
        return SensorReading(time.monotonic())


def metered(meter: ConstantPowerMeter) -> Callable[[str], Sensors]:
    return lambda _: Sensors({"name": "made up"}, {}, meter)


def unmetered(_: str) -> Sensors:
    return Sensors({}, {"energy_j": "no counter"})


@pytest.fixture
def session(relay: Toolchain, small_network: Path, tmp_path: Path) -> Session:
    file = resolve(small_network, folder=tmp_path / "models")
    probe = metered(ConstantPowerMeter())
    return open_session(file, toolchain=relay.name, target=None, plans=PLANS, probe_sensors=probe)


def tune(session: Session, run: Path, *, trials: int) -> Document:
    options = RunOptions(ENERGY, trials, repetitions=2, passes=["SimplifyInference"])
    return Run(session, options).execute(run, lambda *_: None)


def compare(session: Session, names: list[str], folder: Path) -> list[dict[str, Any]]:
    with Log(folder / "log.jsonl") as log, WorkerEvaluator(session, log=log, folder=folder / "files") as evaluator:
        side = Side(evaluator, [named_candidate(session, name) for name in names])
        rows: list[dict[str, Any]] = compare_candidates(
            [side], ComparisonOptions(processes=1), progress=lambda *_: None
        ).to_json()["rows"]
        return rows


@pytest.mark.slow
def test_energy_is_an_objective_and_is_confirmed(session: Session, tmp_path: Path) -> None:
    document = tune(session, tmp_path / "run", trials=2)
    best, verdict = document["best"], document["verdict"]
    # Latency is of the fastest runs, energy of all runs and of another time.
    assert 0.1 < best["energy_j"] / (WATTS * best["latency_s"]["median"]) < BUSY
    assert best["power_w"] == {"median": WATTS, "max": WATTS}
    assert best["temperature_c"] == {"median": 40.0, "max": 40.0, "start": 40.0, "end": 40.0}
    assert best["utilisation"] == {"median": 0.75, "max": 0.75}
    assert best["memory_bytes"]["device"] is None and "memory_bytes.device" in best["unavailable"]
    assert verdict["objective"] == "energy" and verdict["confirmed"] and verdict["interval"]
    assert document["ratios"]["power"]["ratio"] == 1.0
    assert not {"energy_j", "power_w", "temperature_c"} & set(best["unavailable"])


def test_a_comparison_reports_the_energy_of_a_pipeline(session: Session, tmp_path: Path) -> None:
    for row in compare(session, ["O3"], tmp_path):
        assert 0.1 < row["energy_j"] / (WATTS * row["latency_s"]["median"]) < BUSY


@pytest.mark.slow
def test_without_a_meter_energy_is_null_with_a_reason(session: Session, tmp_path: Path) -> None:
    [row] = compare(replace(session, probe_sensors=unmetered), ["O3"], tmp_path)
    assert row["energy_j"] is None and row["unavailable"]["energy_j"] == "no counter"


def test_a_meter_that_fails_is_a_fault_of_the_machine_and_no_crash(session: Session, tmp_path: Path) -> None:
    broken = replace(session, probe_sensors=metered(SilentMeter()))
    with pytest.raises(EnvironmentFault, match="the device did not report its energy"):
        tune(broken, tmp_path / "run", trials=1)


@pytest.fixture
def relax_session(relax: Toolchain, small_network: Path, tmp_path: Path) -> Session:
    file = resolve(small_network, folder=tmp_path / "models")
    probe = metered(ConstantPowerMeter())
    return open_session(file, toolchain=relax.name, target=None, plans=PLANS, probe_sensors=probe)


def profile(session: Session, folder: Path, *, energy: bool) -> tuple[Document, Document]:
    """Return a profile of the sequence with schedules, and its pipeline."""
    with Log(folder / "log.jsonl") as log, WorkerEvaluator(session, log=log, folder=folder / "files") as evaluator:
        candidates = [named_candidate(session, "schedule-cpu")]
        profiled = profile_candidates(evaluator, candidates, peaks=None, energy=energy, progress=lambda *_: None)
    document = profiled.to_json()
    return document, document["pipelines"][0]


def test_the_energy_of_every_kernel_is_read_while_it_runs_alone(relax_session: Session, tmp_path: Path) -> None:
    document, pipeline = profile(relax_session, tmp_path, energy=True)
    assert len(pipeline["kernels"]) > 1 and not pipeline["is_alone"] and document["unavailable"] == {}
    for row in pipeline["kernels"]:
        # Energy is of the kernel alone on warm caches, seconds of its place, where a busy machine may disturb it.
        assert 1e-3 < row["energy_j"] / (WATTS * row["seconds"]) < BUSY, row
    assert "mJ" in profile_text(Profile.from_json(document), width=200) and "mJ" in profile_html(
        Profile.from_json(document)
    )


@pytest.mark.parametrize(
    ("energy", "reason"),
    [
        pytest.param(False, "on request", id="not asked for", marks=pytest.mark.slow),
        pytest.param(True, "no counter", id="no meter"),
    ],
)
def test_a_profile_without_energy_says_why(
    relax_session: Session, tmp_path: Path, *, energy: bool, reason: str
) -> None:
    session = replace(relax_session, probe_sensors=unmetered) if energy else relax_session
    document, pipeline = profile(session, tmp_path, energy=energy)
    assert {row["energy_j"] for row in pipeline["kernels"]} == {None}
    assert reason in document["unavailable"]["energy_j"]
    assert "mJ" not in profile_text(Profile.from_json(document), width=200)


def test_kernels_run_alone_where_the_calls_of_an_inference_are_not_told_apart(
    relax_session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A GPU runs kernels later than they are called, so its runtime gives no times of calls.
    whole = {"processes": [[{"calls": None, "whole_s": 1.0, "weights": []}]]}
    monkeypatch.setattr(Timing, "profile", lambda *_: whole)
    document, pipeline = profile(relax_session, tmp_path, energy=True)
    assert pipeline["is_alone"] and pipeline["whole_s"] == 1.0 and pipeline["blocks"] is None
    assert len(pipeline["calls"]) == sum(row["calls"] for row in pipeline["kernels"]) > 1
    assert all(0 < row["energy_j"] / row["seconds"] == pytest.approx(WATTS, rel=0.1) for row in pipeline["kernels"])
    assert "ran alone" in profile_text(Profile.from_json(document), width=200)
    document, pipeline = profile(relax_session, tmp_path, energy=False)
    assert pipeline["is_alone"] and {row["energy_j"] for row in pipeline["kernels"]} == {None}
    assert "on request" in document["unavailable"]["energy_j"]


def test_an_objective_that_no_sensor_reads_is_refused(session: Session) -> None:
    with pytest.raises(UserError, match="no counter"):
        refuse_unreadable(ENERGY, replace(session, probe_sensors=unmetered))
