"""The history of a search: every candidate at the time it was built, and the best one until then."""

from collections.abc import Iterator
from dataclasses import dataclass

from passsearch.objectives import Objective, recorded_objective
from passsearch.report.charts.chart import BEST, OTHER, Axis, Chart, Point, Series, drawable, spans_much
from passsearch.report.formatting import format_number, lookup
from passsearch.report.rows import find_by_name, label
from passsearch.report.run_record import RunRecord
from passsearch.results import Candidate, RunResult


@dataclass(frozen=True)
class Comparison:
    """How candidates of a search are compared.

    Attributes:
        title: What is compared, relative to the baseline; more is better.
        objective: The objective.
        baseline: The baseline as the search measured it.
    """

    title: str
    objective: Objective
    baseline: Candidate

    def gain(self, candidate: Candidate) -> float | None:
        """Return how many times better a candidate is than the baseline; ``None`` if that was not measured."""
        first, second = (drawable(lookup(each, *self.objective.place)) for each in (self.baseline, candidate))
        if self.objective.is_speed:
            return second
        return first / second if first and second else None


def comparison_of(result: RunResult) -> Comparison:
    """Return how a run's candidates are compared: by its objective, with the baseline as the search measured it."""
    objective, baseline = recorded_objective(result.verdict), result.baseline_name
    reference = find_by_name([*result.baselines, *result.trials], baseline) or result.baseline
    return Comparison(f"{objective.chart_title}, {baseline} = 1", objective, reference)


def history_chart(record: RunRecord) -> Chart:
    """Return the gain of every candidate over time. Without a log, the order of the candidates stands for the time."""
    comparison = comparison_of(record.result)
    points = sorted(_points(record, comparison), key=lambda point: point.x)
    best, line = 0.0, []
    for point in points:
        best = max(best, point.y)
        line.append(Point(point.x, best))
    if line and record.built_s:
        end_s = max(drawable(record.result.seconds.get("total")) or 0.0, line[-1].x)
        line.append(Point(end_s, best))
    times = "seconds since the start of the run" if record.built_s else "candidates in order"
    series = (
        Series("best until then", tuple(line), kind="steps", colour=BEST),
        Series("candidate", tuple(points), colour=OTHER),
    )
    values = [point.y for point in points]
    gains = Axis(comparison.title, is_log=spans_much(values), mark=1)
    return Chart("History of the search", Axis(times), gains, series)


def _points(record: RunRecord, comparison: Comparison) -> Iterator[Point]:
    for number, trial in enumerate(record.result.trials, start=1):
        gain = comparison.gain(trial)
        time_s = record.build_time_s(trial) if record.built_s else float(number)
        if gain is not None and time_s is not None:
            yield Point(time_s, gain, f"{label(trial)}: {format_number(gain)}")
