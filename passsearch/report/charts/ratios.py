"""Confirmed ratios with their intervals: of one run by metric, and of several runs."""

from collections.abc import Sequence

from passsearch.objectives import OBJECTIVES, recorded_objective
from passsearch.report.charts.chart import BEST, OTHER, Axis, Chart, Point, Series, drawable, spans_much
from passsearch.report.formatting import format_ratio
from passsearch.results import RunResult, StatedRatio

TITLES = {objective.name: objective.title for objective in OBJECTIVES} | {"twin": "one build to another"}

WIDEST = 100
"""Factor between a ratio and the ends of its interval, beyond which the interval is cut off."""


def ratios_chart(result: RunResult) -> Chart:
    """Return how many times better the winner is than the baseline, by metric."""
    ratios = [(name, ratio) for name, ratio in (result.ratios or {}).items() if name in TITLES]
    rows = [(TITLES[name], ratio) for name, ratio in ratios if ratio_value(ratio) is not None]
    title = f"times better than {result.baseline_name}, with the interval"
    verdict = result.verdict
    # Green is for a gain that is certain: not for one of the search's own measurements, and not for noise.
    never_green = {"twin"} if verdict.confirmed else set(TITLES)
    if not verdict.improved:
        never_green.add(recorded_objective(verdict).ratio_key)
    colours = [OTHER if name in never_green else None for name, ratio in ratios if ratio_value(ratio) is not None]
    return ratio_chart("The winner and the baseline", title, rows, colours=colours)


def ratio_chart(
    title: str, axis: str, rows: Sequence[tuple[str, StatedRatio | None]], *, colours: Sequence[str | None] = ()
) -> Chart:
    """Return a line per ratio.

    Args:
        title: Title of the chart.
        axis: Title of the axis.
        rows: Label and ratio of every line; those without a value stay empty.
        colours: Colour of every line; ``None`` for one that says whether the interval is above 1.
    """
    points = [_point(number, text, ratio) for number, (text, ratio) in enumerate(rows)]
    drawn = [(point, colours[number] if colours else None) for number, point in enumerate(points) if point]
    ends = [value for point, _ in drawn for value in (point.x, *(point.interval or ()))]
    series = tuple(Series("", (point,), colour=colour or _colour(point)) for point, colour in drawn)
    labels = tuple(text for text, _ in rows)
    return Chart(title, Axis(axis, is_log=spans_much([*ends, 1.0]), mark=1), Axis("", labels=labels), series)


def ratio_value(ratio: StatedRatio | None) -> float | None:
    """Return the value of a ratio; ``None`` if it has none."""
    return drawable(ratio.ratio) if ratio else None


def _point(number: int, text: str, ratio: StatedRatio | None) -> Point | None:
    value = ratio_value(ratio)
    if ratio is None or value is None:
        return None
    interval, (low, high) = None, ratio.interval or (None, None)
    if low is not None and high is not None:
        # An interval that decides nothing would leave no room for the others.
        low, high = max(low, value / WIDEST), min(high, value * WIDEST)
        interval = (float(low), float(high)) if 0 < low <= high else None
    return Point(value, number, f"{text}: {format_ratio(ratio)}", interval)


def _colour(point: Point) -> str:
    return BEST if point.interval and point.interval[0] > 1 else OTHER
