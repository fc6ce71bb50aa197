"""Kernels of the winner beside those of what it is compared with, by their times in the network."""

from collections.abc import Mapping

from passsearch.errors import UserError
from passsearch.report.charts.chart import BASELINE, BEST, Axis, Chart, Point, Series
from passsearch.report.formatting import format_number
from passsearch.report.rows import label
from passsearch.report.run_record import RunRecord
from passsearch.results import RunResult

MOST_KERNELS = 16
"""Kernels that have a line of their own; the others are added up."""

OTHERS = "all others"

MISSING = (
    "This run has no times of kernels of its winner and of another candidate: they are taken where a search composes a "
    "pipeline kernel by kernel, for which its time limit has to leave time."
)


def kernels_chart(record: RunRecord) -> Chart:
    """Return the time that every kernel takes in one inference.

    Raises:
        UserError: The run has no such times.
    """
    pair = _pair(record)
    if pair is None:
        raise UserError(MISSING)
    (first_name, first), (second_name, second) = pair
    names = sorted({*first, *second}, key=lambda name: (-max(first.get(name, 0.0), second.get(name, 0.0)), name))
    shown, others = names[:MOST_KERNELS], names[MOST_KERNELS:]
    labels = (*shown, OTHERS) if others else tuple(shown)
    series = tuple(
        Series(f"{name}: {format_number(1e3 * sum(times.values()))} ms", _bars(times, shown, others), "bars", colour)
        for name, times, colour in ((first_name, first, BASELINE), (second_name, second, BEST))
    )
    return Chart("Kernels in one inference", Axis("milliseconds of an inference"), Axis("", labels=labels), series)


def _pair(record: RunRecord) -> tuple[tuple[str, Mapping[str, float]], tuple[str, Mapping[str, float]]] | None:
    """Return names and kernels of two candidates: the baseline if it was timed, else where the composition began."""
    result = record.result
    best, best_name, baseline = str(result.best.binary), "best", str(result.baseline.binary)
    is_composed = result.best.source is not None and result.best.source.kind == "composition"
    if best not in record.kernels and is_composed and record.kernels:
        # The last correction of a composition is only predicted: all its kernels were timed in the ones before.
        best, best_name = list(record.kernels)[-1], "best before its last correction"
    others = [digest for digest in (baseline, *record.kernels) if digest in record.kernels and digest != best]
    if best not in record.kernels or not others:
        return None
    first = others[0]
    name = result.baseline_name if first == baseline else _name(result, first)
    return (name, record.kernels[first]), (best_name, record.kernels[best])


def _name(result: RunResult, binary: str) -> str:
    return next((label(row) for row in result.trials if row.binary == binary), "another candidate")


def _bars(times: Mapping[str, float], shown: list[str], others: list[str]) -> tuple[Point, ...]:
    rows = [(name, times.get(name)) for name in shown]
    if others:
        rows.append((OTHERS, sum(times.get(name, 0.0) for name in others)))
    return tuple(
        Point(1e3 * seconds, number, f"{name}: {format_number(1e3 * seconds)} ms")
        for number, (name, seconds) in enumerate(rows)
        if seconds is not None
    )
