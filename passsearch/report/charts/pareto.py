"""Throughput and compile time of all candidates, and those that no other candidate beats in both."""

from passsearch.report.charts.chart import (
    ACCENT,
    BASELINE,
    BEST,
    OTHER,
    Axis,
    Chart,
    Point,
    Series,
    drawable,
    spans_much,
)
from passsearch.report.formatting import format_number
from passsearch.report.rows import label
from passsearch.report.run_record import RunRecord
from passsearch.results import Candidate


def pareto_chart(record: RunRecord) -> Chart:
    """Return throughput against compile time, as the search measured them."""
    result = record.result
    rows = [*result.baselines, *result.trials]
    points = {_identity(row): point for row in rows if (point := _point(row))}
    front = _front(list(points.values()))
    best, reference = _identity(result.best), result.baseline_name
    is_baseline = {_identity(row) for row in rows if row.name == reference}
    marked = {best, *is_baseline}
    series = (
        Series("front", tuple(front), kind="line", colour=ACCENT),
        Series("candidate", tuple(point for key, point in points.items() if key not in marked), colour=OTHER),
        Series(reference, tuple(points[key] for key in is_baseline & points.keys()), colour=BASELINE),
        Series("best", (points[best],) if best in points and best not in is_baseline else (), colour=BEST),
    )
    compile_axis = Axis("compile time in seconds", is_log=spans_much([point.x for point in points.values()]))
    throughput_axis = Axis("items per second", is_log=spans_much([point.y for point in points.values()]))
    return Chart("Throughput and compile time of the candidates", compile_axis, throughput_axis, series)


def _identity(row: Candidate) -> tuple[str, str]:
    return row.pipeline, str(row.build)


def _point(row: Candidate) -> Point | None:
    compile_s, per_s = drawable(row.compile_s), drawable(row.throughput_per_s)
    if compile_s is None or per_s is None:
        return None
    text = f"{label(row)}: {format_number(per_s, 4)} per s, compiled in {format_number(compile_s)} s"
    return Point(compile_s, per_s, text)


def _front(points: list[Point]) -> list[Point]:
    """Return the points to which no other point is better in both, from the fastest compile on."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front
