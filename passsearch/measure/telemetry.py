"""Readings of a device while artifacts run on it: power, energy, temperature, utilisation, slowdowns.

The parent process reads the meter, a worker runs the artifacts. Both use the system-wide monotonic clock, so the
worker's spans are matched with the readings afterwards. A trace loaded from a file behaves like one just recorded.
"""

import json
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeAlias

from passsearch.measure.artifact_consumption import Consumption

Span: TypeAlias = tuple[float, float]
"""Begin and end on the monotonic clock, in seconds."""

# Half the shortest interval at which NVML renews its power figures (100 ms on A100 and H100).
PERIOD_S = 0.05
"""Time between two readings, in seconds."""


@dataclass(frozen=True)
class SensorReading:
    """All values of a device at one moment; a value that the device does not report is ``None``.

    Attributes:
        time_s: Moment of the reading, on the monotonic clock.
        energy_j: Energy used since an unknown moment; only differences have a meaning.
        power_w: Power now, or averaged by the device.
        temperature_c: Temperature of the hottest sensor.
        slowdowns: Reasons why the device reduced its clocks; empty if it did not.
        foreign: Number of foreign processes on the device.
        utilisation: Share of the time in which the device ran a kernel, over the driver's last period (a sixth of a
            second to a second).
        clock_hz: Clock of the compute units.
    """

    time_s: float
    energy_j: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    slowdowns: tuple[str, ...] | None = None
    foreign: int | None = None
    clock_hz: int | None = None
    utilisation: float | None = None

    @property
    def is_disturbed(self) -> bool:
        """True if the device is known to be slowed down or to work for other processes."""
        return bool(self.slowdowns or self.foreign)


class Meter(Protocol):
    """The sensors of one device."""

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Reason why a metric cannot be read, by metric."""

    @property
    def reports_disturbances(self) -> bool:
        """True if the meter reports slowdowns or foreign processes."""

    def begin(self) -> None:
        """Prepare for readings; called while none of our processes is on the device."""

    def read(self) -> SensorReading:
        """Read all sensors now."""


@dataclass
class Trace:
    """Readings of one device in order of time.

    Attributes:
        readings: The readings.
    """

    readings: list[SensorReading] = field(default_factory=list)

    def within(self, span: Span) -> list[SensorReading]:
        """Return the readings inside a span."""
        times = [reading.time_s for reading in self.readings]
        return self.readings[bisect_left(times, span[0]) : bisect_right(times, span[1])]

    def energy_j(self, span: Span) -> float | None:
        """Return the energy used in a span; ``None`` unless readings enclose the span.

        The energy counter is interpolated linearly at both ends.
        """
        begin_j, end_j = (self._energy_at(time_s) for time_s in span)
        return end_j - begin_j if begin_j is not None and end_j is not None else None

    def _energy_at(self, time_s: float) -> float | None:
        points = [(reading.time_s, reading.energy_j) for reading in self.readings if reading.energy_j is not None]
        index = bisect_left([point_s for point_s, _ in points], time_s)
        if index < len(points) and points[index][0] == time_s:
            return points[index][1]
        if not 0 < index < len(points):
            return None
        (before_s, before_j), (after_s, after_j) = points[index - 1], points[index]
        return before_j + (after_j - before_j) * (time_s - before_s) / (after_s - before_s)

    def write(self, file: Path) -> None:
        """Write one reading per line, as JSON."""
        file.write_text("".join(json.dumps(asdict(reading)) + "\n" for reading in self.readings), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Trace":
        """Load a trace that ``write`` wrote."""
        names = {each.name for each in fields(SensorReading)}
        lines = file.read_text(encoding="utf-8").splitlines()
        # Earlier versions wrote keys that nothing reads any more.
        rows = [{key: value for key, value in json.loads(line).items() if key in names} for line in lines]
        # JSON has lists only; without tuples a loaded trace would differ from the one that was written.
        tuples = [{**row, "slowdowns": None if row["slowdowns"] is None else tuple(row["slowdowns"])} for row in rows]
        return cls([SensorReading(**row) for row in tuples])


@contextmanager
def recording(meter: Meter, *, period_s: float = PERIOD_S) -> Iterator[Trace]:
    """Read a meter periodically in a thread, while the body of the ``with`` statement runs.

    The body starts all our processes that use the device.
    """
    meter.begin()
    # One reading before and one after the body, so that readings enclose every span inside it.
    trace, done = Trace([meter.read()]), threading.Event()

    def record() -> None:
        while not done.wait(period_s):
            trace.readings.append(meter.read())

    thread = threading.Thread(target=record, daemon=True)
    thread.start()
    try:
        yield trace
    finally:
        done.set()
        thread.join()
        trace.readings.append(meter.read())


def drop_disturbed_rounds(answer: Mapping[str, Any], trace: Trace) -> dict[str, Any]:
    """Return a measurement without the rounds in which the device was slowed down or worked for other processes.

    All rounds stay if less than half of them, or none of one artifact's, would remain. In both cases ``conditions``
    reports the disturbances.

    Args:
        answer: A measurement as ``rounds.measure`` returns it.
        trace: Readings of the device during the measurement.
    """
    spans: Sequence[Span] = [(start, end) for start, end in answer["spans"]]
    readings = [trace.within(span) for span in spans]
    places = [place for place, row in enumerate(readings) if not any(reading.is_disturbed for reading in row)]
    conditions = {**answer["conditions"], **_device_conditions([reading for row in readings for reading in row])}
    # An artifact that left the race early has samples of the first rounds only.
    samples = [[row[place] for place in places if place < len(row)] for row in answer["samples"]]
    if 2 * len(places) < len(spans) or not all(samples):
        return {**answer, "conditions": conditions}
    if "parts" in answer:
        parts = [[row[place] for place in places if place < len(row)] for row in answer["parts"]]
        answer = {**answer, "parts": parts}
    conditions["rounds_dropped"] += len(spans) - len(places)
    return {**answer, "samples": samples, "spans": [spans[place] for place in places], "conditions": conditions}


def _device_conditions(readings: Sequence[SensorReading]) -> dict[str, Any]:
    """Return ``throttled`` (reasons, or false) and ``clocks`` (lowest and highest), if the device reports them."""
    slowdowns = [reading.slowdowns for reading in readings if reading.slowdowns is not None]
    reasons = sorted({reason for row in slowdowns for reason in row})
    clocks_hz = [reading.clock_hz for reading in readings if reading.clock_hz is not None]
    return {
        **({"throttled": reasons or False} if slowdowns else {}),
        **({"clocks": [min(clocks_hz), max(clocks_hz)]} if clocks_hz else {}),
    }


def consumption(windows: Sequence[Mapping[str, Any]], trace: Trace) -> list[Consumption]:
    """Return the consumption of every artifact, in order of the artifacts.

    Args:
        windows: The windows, each with ``artifact``, ``turn``, ``span`` and ``inferences``.
        trace: Readings that enclose the windows.
    """
    artifacts = 1 + max(window["artifact"] for window in windows)
    # A disturbance drops the whole turn, because ratios compare the windows of one turn. If all turns are disturbed,
    # all stay: a measurement under disturbance is better than none.
    bad_turns = {
        window["turn"] for window in windows if any(reading.is_disturbed for reading in trace.within(window["span"]))
    }
    windows = [window for window in windows if window["turn"] not in bad_turns] or windows
    return [
        _consumption_of([window for window in windows if window["artifact"] == place], trace)
        for place in range(artifacts)
    ]


def _consumption_of(windows: Sequence[Mapping[str, Any]], trace: Trace) -> Consumption:
    """Return the consumption of one artifact in its windows."""
    readings = [reading for window in windows for reading in trace.within(window["span"])]
    energies_j = [trace.energy_j(window["span"]) for window in windows]
    per_inference_j = [
        energy_j / window["inferences"]
        for energy_j, window in zip(energies_j, windows, strict=True)
        if energy_j is not None
    ]
    temperatures_c = [reading.temperature_c for reading in readings if reading.temperature_c is not None]
    ends = {"start": temperatures_c[0], "end": temperatures_c[-1]} if temperatures_c else {}
    return Consumption(
        # All windows or none: ratios pair the windows of two artifacts.
        energy_j=tuple(per_inference_j) if len(per_inference_j) == len(windows) else None,
        power_w=_median_and_max([reading.power_w for reading in readings if reading.power_w is not None]),
        temperature_c={**(_median_and_max(temperatures_c) or {}), **ends} or None,
        utilisation=_median_and_max([reading.utilisation for reading in readings if reading.utilisation is not None]),
    )


def _median_and_max(values: Sequence[float]) -> dict[str, float] | None:
    return {"median": median(values), "max": max(values)} if values else None
