"""Recorded GPUs, read as a real GPU is read, against a meter in their power cables."""

from collections.abc import Callable
from statistics import median
from typing import Any

import pytest

from passsearch.measure import Trace, consumption, nvml
from passsearch.measure.telemetry import PERIOD_S

AVERAGED = ("rtx3090", "a5000")
"""Cards whose driver averages power over a second."""

Play = Callable[[str], tuple[Any, Trace]]


@pytest.fixture
def play_card(recordings: Any, nvml_library: Any, play: Any) -> Play:
    """Returns a card's recording and the trace that a meter reads while the recording is played."""

    def play_one(card: str) -> tuple[Any, Trace]:
        recording, now_s = recordings.load(card), 0.0
        play(recording, lambda: now_s)
        meter, trace = nvml.NvmlMeter(nvml_library.nvmlDeviceGetUUID(0), clock=lambda: now_s), Trace()
        assert meter.unavailable.keys() == {"energy_j", "throttled", "utilisation"}
        while now_s < 2 * recording.load_s:
            trace.readings.append(meter.read())
            now_s += PERIOD_S
        return recording, trace

    return play_one


@pytest.mark.parametrize("card", ["a100", "rtx4090", *AVERAGED])
def test_power_under_load_agrees_with_the_cables_but_for_the_sensors_scale(
    play_card: Play, recordings: Any, card: str
) -> None:
    recording, trace = play_card(card)
    under_load, at_rest = consumption(recordings.windows(recording), trace)
    true_w = recording.cable_power_w(recording.spans[0])
    assert 0.92 * true_w < (under_load.power_w or {})["median"] < true_w
    assert (under_load.power_w or {})["max"] < 1.01 * (under_load.power_w or {})["median"]
    assert (under_load.temperature_c or {})["start"] > (at_rest.temperature_c or {})["end"]
    assert under_load.energy_j is None  # no counter was recorded


@pytest.mark.parametrize("card", AVERAGED)
def test_a_window_begins_after_the_time_that_the_driver_averages_over(
    play_card: Play, recordings: Any, card: str
) -> None:
    recording, trace = play_card(card)
    under_load, _ = consumption(recordings.windows(recording), trace)
    before_window, inside_window = (trace.within(span) for span in ((0.0, 0.5), recording.spans[0]))
    instant_w = median(recording.at(reading.time_s)["instant_w"] for reading in inside_window)
    assert all((reading.power_w or 0) < 0.75 * instant_w for reading in before_window)
    assert all((reading.power_w or 0) > 0.98 * instant_w for reading in inside_window)
    assert (under_load.power_w or {})["median"] == pytest.approx(instant_w, rel=0.002)
