"""Throughput and compile time of all candidates, and those that no other candidate beats in both."""

from collections.abc import Mapping
from typing import Any

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
from passsearch.report.charts.history import trials
from passsearch.report.formatting import format_number
from passsearch.report.rows import baseline_name, label
from passsearch.report.run_record import RunRecord


def pareto_chart(record: RunRecord) -> Chart:
    """Return throughput against compile time, as the search measured them."""
    document = record.document
    rows = [*(document.get("baselines") or []), *trials(document)]
    points = {_identity(row): _point(row) for row in rows if _is_measured(row)}
    front = _front(list(points.values()))
    best, reference = _identity(document.get("best") or {}), baseline_name(document)
    is_baseline = {_identity(row) for row in rows if row.get("name") == reference}
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


def _identity(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("pipeline")), str(row.get("build"))


def _is_measured(row: Mapping[str, Any]) -> bool:
    return None not in (drawable(row.get("compile_s")), drawable(row.get("throughput_per_s")))


def _point(row: Mapping[str, Any]) -> Point:
    compile_s, per_s = float(row["compile_s"]), float(row["throughput_per_s"])
    text = f"{label(row)}: {format_number(per_s, 4)} per s, compiled in {format_number(compile_s)} s"
    return Point(compile_s, per_s, text)


def _front(points: list[Point]) -> list[Point]:
    """Return the points to which no other point is better in both, from the fastest compile on."""
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front
