"""What a device tells beside time, read while something runs on it: power, energy, temperature, memory, throttling.

A meter is read in the parent process, the artifacts run in a worker. Both use the system-wide monotonic clock, so a
worker's spans can be laid over the readings afterwards; a trace that was written down is used like one just recorded.
"""

import json
import math
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypeAlias

Span: TypeAlias = tuple[float, float]
"""Begin and end on the monotonic clock, in seconds."""

PERIOD_S = 0.05
"""Between readings: half the shortest time in which NVML's power figures are renewed (100 ms on A100 and H100)."""


@dataclass(frozen=True)
class Reading:
    """One look at a device; what it does not tell is ``None``.

    Attributes:
        time_s: When, on the monotonic clock.
        energy_j: Used since some moment in the past.
        power_w: Now, or over the device's own averaging window.
        temperature_c: Of the hottest part that is read.
        memory_bytes: In use by our processes.
        slowdowns: Why its clocks are held down; empty if they are not.
        foreign: Processes of others on it.
        clock_hz: Of what computes.
    """

    time_s: float
    energy_j: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    memory_bytes: int | None = None
    slowdowns: tuple[str, ...] | None = None
    foreign: int | None = None
    clock_hz: int | None = None


class Meter(Protocol):
    """Reads one device.

    Attributes:
        unavailable: Why a metric cannot be read, by metric.
        watches: Whether it tells of slowdowns or of others at work.
    """

    @property
    def unavailable(self) -> Mapping[str, str]:
        """As above."""

    @property
    def watches(self) -> bool:
        """As above."""

    def read(self) -> Reading:
        """Now."""


@dataclass
class Trace:
    """Readings in the order of time."""

    readings: list[Reading] = field(default_factory=list)

    def within(self, span: Span) -> list[Reading]:
        """Those taken in a span."""
        times = [each.time_s for each in self.readings]
        return self.readings[bisect_left(times, span[0]) : bisect_right(times, span[1])]

    def energy_j(self, span: Span) -> float | None:
        """Used in a span, by the counter, which is interpolated at both ends; ``None`` unless readings enclose it."""
        ends = [self._counter(moment) for moment in span]
        return ends[1] - ends[0] if ends[0] is not None and ends[1] is not None else None

    def _counter(self, moment: float) -> float | None:
        known = [(each.time_s, each.energy_j) for each in self.readings if each.energy_j is not None]
        place = bisect_left([time_s for time_s, _ in known], moment)
        if place < len(known) and known[place][0] == moment:
            return known[place][1]
        if not 0 < place < len(known):
            return None
        (before_s, before_j), (after_s, after_j) = known[place - 1], known[place]
        return before_j + (after_j - before_j) * (moment - before_s) / (after_s - before_s)

    def write(self, file: Path) -> None:
        """One reading a line."""
        file.write_text("".join(json.dumps(asdict(each)) + "\n" for each in self.readings), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Trace":
        """Inverse of ``write``."""
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        tuples = [{**row, "slowdowns": None if row["slowdowns"] is None else tuple(row["slowdowns"])} for row in rows]
        return cls([Reading(**row) for row in tuples])


@contextmanager
def recording(meter: Meter, *, period_s: float = PERIOD_S) -> Iterator[Trace]:
    """Read a meter again and again in a thread, once before and once after what is done meanwhile."""
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


def undisturbed(answer: Mapping[str, Any], trace: Trace) -> dict[str, Any]:
    """Samples of a measurement without the rounds in which the device was held back or worked for others.

    Where less than half of the rounds would be left, or none of one artifact's, all are kept; ``conditions`` says in
    either case what was seen.
    """
    spans: Sequence[Span] = [(start, end) for start, end in answer["spans"]]
    seen = [trace.within(span) for span in spans]
    calm = [place for place, each in enumerate(seen) if not any(map(_disturbed, each))]
    told = [one.slowdowns for each in seen for one in each if one.slowdowns is not None]
    reasons = sorted({reason for each in told for reason in each})
    clocks_hz = [one.clock_hz for each in seen for one in each if one.clock_hz is not None]
    conditions = {
        **answer["conditions"],
        **({"throttled": reasons or False} if told else {}),
        **({"clocks": [min(clocks_hz), max(clocks_hz)]} if clocks_hz else {}),
    }
    samples = [[row[place] for place in calm if place < len(row)] for row in answer["samples"]]
    if 2 * len(calm) < len(spans) or not all(samples):
        return {**answer, "conditions": conditions}
    conditions["rounds_dropped"] += len(spans) - len(calm)
    return {**answer, "samples": samples, "spans": [spans[place] for place in calm], "conditions": conditions}


def _disturbed(reading: Reading) -> bool:
    return bool(reading.slowdowns or reading.foreign)


def consumption(windows: Sequence[Mapping[str, Any]], trace: Trace) -> list[dict[str, Any]]:
    """What every artifact consumed in its windows, by artifact; a turn with a disturbed window counts for nobody.

    Answers ``energy_j`` per inference, a value a window, and over all windows ``power_w`` and ``temperature_c``
    (median, max; the latter also at start and end) and ``memory_bytes`` at most; each ``None`` where it was not read.

    Args:
        windows: ``artifact``, ``turn``, ``span`` and ``inferences`` of each.
        trace: Readings that enclose them.
    """
    artifacts = 1 + max(each["artifact"] for each in windows)
    bad = {each["turn"] for each in windows if any(map(_disturbed, trace.within(each["span"])))}
    windows = [each for each in windows if each["turn"] not in bad] or windows
    return [_consumed([each for each in windows if each["artifact"] == place], trace) for place in range(artifacts)]


CONSUMED = ("power", "energy")
"""Objectives that are read over windows."""


def has_consumption(consumed: Mapping[str, Any], objective: str) -> bool:
    """Whether an artifact's consumption was read, and is something to take a ratio of."""
    if objective == "power":
        return bool(consumed["power_w"]) and consumed["power_w"]["median"] > 0
    return bool(consumed["energy_j"]) and min(consumed["energy_j"]) > 0


def consumed_log_ratio(baseline: Mapping[str, Any], candidate: Mapping[str, Any], *, objective: str) -> float:
    """Log of how many times less an artifact consumes than the baseline that ran in turn with it.

    Energy by the median over windows taken in pairs, power by the medians over all readings.
    """
    if objective == "power":
        return math.log(baseline["power_w"]["median"] / candidate["power_w"]["median"])
    return median(math.log(a / b) for a, b in zip(baseline["energy_j"], candidate["energy_j"], strict=True))


def _consumed(windows: Sequence[Mapping[str, Any]], trace: Trace) -> dict[str, Any]:
    readings = [reading for each in windows for reading in trace.within(each["span"])]
    energies = [trace.energy_j(each["span"]) for each in windows]
    known = [used / each["inferences"] for used, each in zip(energies, windows, strict=True) if used is not None]
    heat = [each.temperature_c for each in readings if each.temperature_c is not None]
    memory = [each.memory_bytes for each in readings if each.memory_bytes is not None]
    return {
        "energy_j": known if len(known) == len(windows) else None,
        "power_w": _middle_and_max([each.power_w for each in readings if each.power_w is not None]),
        "temperature_c": {**(_middle_and_max(heat) or {}), "start": heat[0], "end": heat[-1]} if heat else None,
        "memory_bytes": max(memory, default=None),
    }


def _middle_and_max(values: Sequence[float]) -> dict[str, float] | None:
    return {"median": median(values), "max": max(values)} if values else None
