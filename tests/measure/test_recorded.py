"""Power of GPUs that were recorded beside a meter in their cables, read as one reads a GPU that is there."""

from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.measure import Trace, consumption, nvml
from passsearch.measure.telemetry import PERIOD_S

AVERAGED = ("rtx3090", "a5000")
"""Cards whose driver averages over a second."""

Read = Callable[[str], tuple[Any, Trace]]


@pytest.fixture
def read(recordings: Any, nvml_library: Any, play: Any, monkeypatch: pytest.MonkeyPatch) -> Read:
    """A card's recording, and what the meter reads while it is played."""

    def told(card: str) -> tuple[Any, Trace]:
        recording, now_s = recordings.load(card), 0.0
        play(recording, lambda: now_s)
        monkeypatch.setattr(nvml, "time", SimpleNamespace(monotonic=lambda: now_s))
        meter, trace = nvml.NvmlMeter(nvml_library.nvmlDeviceGetUUID(0)), Trace()
        assert meter.unavailable.keys() == {"energy_j", "throttled"}
        while now_s < 2 * recording.load_s:
            trace.readings.append(meter.read())
            now_s += PERIOD_S
        return recording, trace

    return told


@pytest.mark.parametrize("card", ["a100", "rtx4090", *AVERAGED])
def test_power_under_load_is_that_in_the_cables_but_for_the_sensors_scale(
    read: Read, recordings: Any, card: str
) -> None:
    recording, trace = read(card)
    under_load, at_rest = consumption(recordings.windows(recording), trace)
    true = recording.by_cables(recording.spans[0])
    assert 0.92 * true < under_load["power_w"]["median"] < true
    assert under_load["power_w"]["max"] < 1.01 * under_load["power_w"]["median"]
    assert under_load["temperature_c"]["start"] > at_rest["temperature_c"]["end"]
    assert under_load["energy_j"] is None  # no counter was recorded


@pytest.mark.parametrize("card", AVERAGED)
def test_a_window_begins_after_what_the_driver_averages_over(read: Read, recordings: Any, card: str) -> None:
    recording, trace = read(card)
    under_load, _ = consumption(recordings.windows(recording), trace)
    [*early], [*settled] = (trace.within(span) for span in ((0.0, 0.5), recording.spans[0]))
    now = median(recording.at(each.time_s)["instant_w"] for each in settled)
    assert all(each.power_w < 0.75 * now for each in early)
    assert all(each.power_w > 0.8 * now for each in settled)
    assert under_load["power_w"]["median"] == pytest.approx(now, rel=0.002)
