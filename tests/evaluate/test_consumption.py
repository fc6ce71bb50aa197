"""Energy and power from a meter of our own beside a real compiler: read, confirmed, and searched for."""

import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import passsearch
from passsearch.errors import UserError
from passsearch.measure import Sensors, WindowPlan
from passsearch.measure.telemetry import Reading
from passsearch.toolchain import Toolchain

WATTS = 50.0


class SteadyMeter:
    """A device that takes 50 W whatever it does, so that energy goes by time."""

    watches = False

    def __init__(self) -> None:
        self.unavailable: dict[str, str] = {}

    def read(self) -> Reading:
        now_s = time.monotonic()
        return Reading(now_s, energy_j=WATTS * now_s, power_w=WATTS, temperature_c=40.0, memory_bytes=1 << 20)


@pytest.fixture
def metered(monkeypatch: pytest.MonkeyPatch) -> None:
    short = WindowPlan(windows=2, window_s=0.2, settle_s=0.05)
    monkeypatch.setattr(evaluator, "SEARCH_WINDOWS", short)
    for room in ("confirm", "comparison"):
        monkeypatch.setattr(import_module(f"passsearch.search.{room}"), "FINAL_WINDOWS", short)
    monkeypatch.setattr(import_module("passsearch.search.study"), "SEARCH_WINDOWS", replace(short, windows=1))
    monkeypatch.setattr(session, "probe", lambda _: Sensors({"name": "made up"}, {}, SteadyMeter()))


@pytest.mark.usefixtures("metered")
def test_energy_is_an_objective_and_is_confirmed(relay: Toolchain, small_network: Path, tmp_path: Path) -> None:
    options = {"toolchain": relay.name, "trials": 2, "confirm": 2, "passes": ["SimplifyInference"]}
    result = passsearch.tune(small_network, objective="energy", out=tmp_path / "run", **options)
    best, verdict = result.document["best"], result.document["verdict"]
    # Latency is of the fastest runs, energy of all and at another time: far apart on a busy machine, never by a unit.
    assert 0.1 < best["energy_j"] / (WATTS * best["latency_s"]["median"]) < 50
    assert best["power_w"] == {"median": WATTS, "max": WATTS}
    assert best["temperature_c"] == {"median": 40.0, "max": 40.0, "start": 40.0, "end": 40.0}
    assert best["memory_bytes"]["device"] == 1 << 20
    assert verdict["objective"] == "energy" and verdict["confirmed"] and verdict["interval"]
    assert result.document["ratios"]["power"]["ratio"] == 1.0
    assert not {"energy_j", "power_w", "temperature_c"} & set(best["unavailable"])


@pytest.mark.usefixtures("metered")
def test_a_comparison_tells_what_each_pipeline_takes(relay: Toolchain, small_network: Path) -> None:
    document = passsearch.compare(small_network, ["O0", "O3"], toolchain=relay.name, processes=1)
    for row in document["rows"]:
        assert 0.1 < row["energy_j"] / (WATTS * row["latency_s"]["median"]) < 50


def test_without_a_meter_energy_is_null_with_a_reason(
    relay: Toolchain, small_network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "probe", lambda _: Sensors({}, {"energy_j": "nobody knows"}))
    document = passsearch.compare(small_network, ["O3"], toolchain=relay.name, processes=1)
    row = document["rows"][0]
    assert row["energy_j"] is None and row["unavailable"]["energy_j"] == "nobody knows"


def test_a_meter_that_fails_is_a_failure_of_the_candidate_and_no_crash(
    relay: Toolchain, small_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metered: None
) -> None:
    monkeypatch.setattr(SteadyMeter, "read", lambda _: Reading(time.monotonic()))
    options = {"toolchain": relay.name, "trials": 1, "confirm": 2, "passes": ["SimplifyInference"]}
    with pytest.raises(UserError, match="the device did not tell its energy"):
        passsearch.tune(small_network, objective="energy", out=tmp_path / "run", **options)


@pytest.mark.slow
def test_a_win_nobody_can_measure_here_is_not_signed_off(
    relay: Toolchain, small_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, metered: None
) -> None:
    run = tmp_path / "run"
    options = {"toolchain": relay.name, "trials": 1, "confirm": 2, "passes": ["SimplifyInference"]}
    passsearch.tune(small_network, objective="energy", out=run, **options)
    monkeypatch.setattr(session, "probe", lambda _: Sensors({}, {"energy_j": "nobody knows"}))
    with pytest.raises(UserError, match="nobody knows"):
        passsearch.audit(run, confirm=2)
