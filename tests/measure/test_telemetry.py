"""Readings matched with spans: of a simulated device with a constant power, and of a trace loaded from a file."""

import time
from pathlib import Path
from typing import Any

import pytest

from passsearch.measure import (
    Consumption,
    SensorReading,
    Trace,
    consumption,
    drop_disturbed_rounds,
    recording,
)

SPAN = (10.0, 20.0)


def constant_power(power_w: float = 50.0, *, end_s: int = 30, **more: Any) -> Trace:
    return Trace([SensorReading(float(s), energy_j=100 + power_w * s, power_w=power_w, **more) for s in range(end_s)])


def windows(*rows: tuple[int, float, float, int]) -> list[dict[str, Any]]:
    return [
        {"artifact": place, "turn": int(start > 13), "span": (start, end), "inferences": count}
        for place, start, end, count in rows
    ]


def test_energy_is_interpolated_between_readings() -> None:
    assert constant_power().energy_j((10.25, 12.5)) == pytest.approx(50 * 2.25)


def test_a_window_that_no_readings_enclose_has_no_energy() -> None:
    assert constant_power().energy_j((28.0, 31.0)) is None
    assert Trace([SensorReading(0.0), SensorReading(9.0)]).energy_j((1.0, 2.0)) is None


def test_consumption_is_per_inference_and_by_artifact() -> None:
    trace = constant_power(temperature_c=60.0, utilisation=0.9)
    first, second = consumption(windows((0, 1, 6, 100), (1, 7, 12, 50), (0, 14, 19, 100)), trace)
    assert first.energy_j == (pytest.approx(2.5),) * 2 and second.energy_j == (pytest.approx(5.0),)
    assert first.power_w == {"median": 50.0, "max": 50.0}
    assert first.temperature_c == {"median": 60.0, "max": 60.0, "start": 60.0, "end": 60.0}
    assert first.utilisation == {"median": 0.9, "max": 0.9}


def test_a_metric_that_was_not_read_is_none_and_not_zero() -> None:
    (row,) = consumption(windows((0, 1, 6, 100)), Trace([SensorReading(float(s)) for s in range(9)]))
    assert row == Consumption(None, None, None)


def test_a_turn_with_a_disturbed_window_is_dropped_for_all_artifacts() -> None:
    trace = constant_power()
    trace.readings[3] = SensorReading(3.0, energy_j=250.0, power_w=50.0, slowdowns=("power brake",))
    first, second = consumption(windows((0, 1, 6, 100), (1, 7, 12, 50), (0, 14, 19, 100), (1, 20, 25, 50)), trace)
    assert len(first.energy_j or ()) == len(second.energy_j or ()) == 1


@pytest.mark.parametrize("disturbance", [{"slowdowns": ("power brake",)}, {"foreign": 1}])
def test_a_round_on_a_disturbed_device_is_dropped_for_all_artifacts(disturbance: dict[str, Any]) -> None:
    quiet: dict[str, Any] = {"slowdowns": ()} if "slowdowns" in disturbance else {}
    trace = Trace(
        [SensorReading(0.5, foreign=0, **quiet), SensorReading(1.5, **disturbance), SensorReading(2.5, **quiet)]
    )
    answer = {"samples": [[1.0, 9.0, 1.1], [2.0, 9.0]], "spans": [[0, 1], [1, 2], [2, 3]]}
    result = drop_disturbed_rounds({**answer, "conditions": {"rounds_dropped": 1}}, trace)
    assert result["samples"] == [[1.0, 1.1], [2.0]]
    assert result["conditions"]["rounds_dropped"] == 2 and "clocks" not in result["conditions"]
    assert result["conditions"].get("throttled") == (["power brake"] if quiet else None)


def test_an_artifact_that_left_the_race_early_keeps_its_samples() -> None:
    trace = Trace([SensorReading(0.5, foreign=1), SensorReading(1.5, foreign=0), SensorReading(2.5, foreign=0)])
    answer = {"samples": [[1.0, 1.1, 1.2], [2.0]], "spans": [[0, 1], [1, 2], [2, 3]]}
    result = drop_disturbed_rounds({**answer, "conditions": {"rounds_dropped": 0}}, trace)
    assert result["samples"] == answer["samples"]


def test_a_device_that_is_always_disturbed_keeps_its_rounds_and_reports_it() -> None:
    trace = Trace([SensorReading(0.5, slowdowns=("too hot (driver)",), clock_hz=900)])
    answer = {"samples": [[1.0]], "spans": [[0, 1]], "conditions": {"rounds_dropped": 0}}
    result = drop_disturbed_rounds(answer, trace)
    assert result["samples"] == [[1.0]] and result["conditions"]["throttled"] == ["too hot (driver)"]
    assert result["conditions"]["clocks"] == [900, 900]


def test_a_trace_loaded_from_a_file_equals_the_one_written(tmp_path: Path) -> None:
    trace = constant_power(temperature_c=55.0, slowdowns=("power brake",), foreign=0)
    trace.write(tmp_path / "trace.jsonl")
    loaded = Trace.load(tmp_path / "trace.jsonl")
    assert loaded == trace and loaded.energy_j(SPAN) == trace.energy_j(SPAN)


class Counter:
    """A simulated device that uses 50 W all the time."""

    reports_disturbances = False

    def __init__(self) -> None:
        self.unavailable: dict[str, str] = {}
        self._start_s = time.monotonic()

    def begin(self) -> None:
        pass

    def read(self) -> SensorReading:
        now_s = time.monotonic()
        return SensorReading(now_s, energy_j=50 * (now_s - self._start_s))


def test_a_recording_encloses_the_body_of_its_with_statement() -> None:
    with recording(Counter(), period_s=0.01) as trace:
        start = time.monotonic()
        time.sleep(0.1)
        span = (start, time.monotonic())
    assert trace.energy_j(span) == pytest.approx(50 * (span[1] - span[0]), rel=0.01)
    assert len(trace.within(span)) >= 5
