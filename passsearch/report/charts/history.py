"""The history of a search: every candidate at the time it was built, and the best one until then."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from passsearch.core import SPEED_OBJECTIVES
from passsearch.report.charts.chart import BEST, OTHER, Axis, Chart, Point, Series, drawable, spans_much
from passsearch.report.formatting import format_number, lookup
from passsearch.report.rows import baseline_name, label
from passsearch.report.run_record import RunRecord


@dataclass(frozen=True)
class Objective:
    """How candidates of a search are compared.

    Attributes:
        title: What is compared, relative to the baseline; more is better.
        name: Name of the objective.
        baseline: The baseline as the search measured it.
    """

    title: str
    name: str
    baseline: Mapping[str, Any]

    def gain(self, candidate: Mapping[str, Any]) -> float | None:
        """Return how many times better a candidate is than the baseline; ``None`` if that was not measured."""
        if self.name in SPEED_OBJECTIVES:
            return drawable(lookup(candidate, "ratio", "ratio"))
        first, second = (drawable(lookup(each, *PLACES[self.name])) for each in (self.baseline, candidate))
        return first / second if first and second else None


PLACES = {
    "compile_time": ("compile_s",),
    "memory": ("memory_bytes", "peak_rss"),
    "power": ("power_w", "median"),
    "energy": ("energy_j",),
}
"""Places of metrics in a measurement, by objective."""


def objective_of(document: Mapping[str, Any]) -> Objective:
    """Return the objective of a run, and the baseline as the search measured it."""
    name, baseline = str(lookup(document, "verdict", "objective") or "throughput"), baseline_name(document)
    name = name if name in PLACES or name == "latency" else "throughput"
    rows = [*(document.get("baselines") or []), *trials(document)]
    reference = next((row for row in rows if row.get("name") == baseline), document.get("baseline") or {})
    what = {"throughput": "throughput", "latency": "speed"}.get(name, f"gain in {name.replace('_', ' ')}")
    return Objective(f"{what}, {baseline} = 1", name, reference)


def trials(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the candidates of a search."""
    return [row for row in document.get("trials") or [] if isinstance(row, Mapping)]


def history_chart(record: RunRecord) -> Chart:
    """Return the gain of every candidate over time. Without a log, the order of the candidates stands for the time."""
    objective = objective_of(record.document)
    points = sorted(_points(record, objective), key=lambda point: point.x)
    best, line = 0.0, []
    for point in points:
        best = max(best, point.y)
        line.append(Point(point.x, best))
    if line and record.built_s:
        end_s = max(drawable(lookup(record.document, "seconds", "total")) or 0.0, line[-1].x)
        line.append(Point(end_s, best))
    times = "seconds since the start of the run" if record.built_s else "candidates in order"
    series = (
        Series("best until then", tuple(line), kind="steps", colour=BEST),
        Series("candidate", tuple(points), colour=OTHER),
    )
    values = [point.y for point in points]
    return Chart("History of the search", Axis(times), Axis(objective.title, is_log=spans_much(values), mark=1), series)


def _points(record: RunRecord, objective: Objective) -> Iterator[Point]:
    for number, trial in enumerate(trials(record.document), start=1):
        gain = objective.gain(trial)
        time_s = record.build_time_s(trial) if record.built_s else float(number)
        if gain is not None and time_s is not None:
            yield Point(time_s, gain, f"{label(trial)}: {format_number(gain)}")
