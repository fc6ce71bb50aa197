"""Power of GPUs that were recorded beside a meter in their cables, read as one reads a GPU that is there."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from passsearch.measure import Trace, consumption, nvml
from passsearch.measure.telemetry import PERIOD_S

CARDS = ("a100", "rtx3090", "rtx4090", "a5000")
Play = Callable[[Any, Callable[[], float]], None]


@pytest.fixture
def read(recordings: Any, play: Play, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, Trace]]:
    """A card's recording, and what the meter reads while it is played."""

    def told(card: str) -> tuple[Any, Trace]:
        recording, now_s = recordings.load(card), 0.0
        play(recording, lambda: now_s)
        monkeypatch.setattr(nvml, "time", SimpleNamespace(monotonic=lambda: now_s))
        meter, trace = nvml.NvmlMeter("GPU-11111111-aaaa"), Trace()
        assert meter.unavailable.keys() == {"energy_j", "throttled"}
        while now_s < 2 * recording.load_s:
            trace.readings.append(meter.read())
            now_s += PERIOD_S
        return recording, trace

    return told


def consumed(recording: Any, trace: Trace) -> list[dict[str, Any]]:
    return consumption(
        [{"artifact": place, "turn": 0, "span": span, "inferences": 1} for place, span in enumerate(recording.spans)],
        trace,
    )


@pytest.mark.parametrize("card", CARDS)
def test_power_under_load_is_that_in_the_cables_but_for_the_sensors_scale(
    read: Callable[[str], tuple[Any, Trace]], card: str
) -> None:
    recording, trace = read(card)
    under_load, at_rest = consumed(recording, trace)
    true = recording.by_cables(recording.spans[0])
    assert 0.92 * true < under_load["power_w"]["median"] < true
    assert under_load["power_w"]["max"] < 1.01 * under_load["power_w"]["median"]
    assert under_load["temperature_c"]["start"] > at_rest["temperature_c"]["end"]
    assert under_load["energy_j"] is None  # no counter was recorded


def test_what_ran_before_is_not_in_the_power(read: Callable[[str], tuple[Any, Trace]]) -> None:
    """The A5000's average reads 15 % more than it comes to rest at, for most of a window after a load."""
    recording, trace = read("a5000")
    _, at_rest = consumed(recording, trace)
    last = [each.power_w for each in trace.readings[-20:]]
    assert at_rest["power_w"]["median"] == pytest.approx(sum(last) / len(last), rel=0.025)
