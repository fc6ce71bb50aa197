"""Charts as static SVG: no script, no style of another file, legible on a light and on a dark page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from passsearch.report.charts.chart import Axis, Chart, Point, Series
from passsearch.report.formatting import html_text

WIDE, NARROW = 900, 350
"""Widths in pixels: for a desktop, and for a phone."""

FONT, ROW, PLOT_HEIGHT = 12, 26, 260
CHARACTER = 6.9
"""Width of a character in pixels, roughly."""

LINE = 20
"""Height of a line of text above the points, in pixels."""

TICKS = 5


@dataclass(frozen=True)
class _Scale:
    """A map from values to pixels."""

    low: float
    high: float
    pixels: tuple[float, float]
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(each) if self.is_log else each for each in (self.low, self.high, value))
        left, right = self.pixels
        return round(left + (at - low) / (high - low) * (right - left), 1)


@dataclass(frozen=True)
class _Frame:
    """The area of the points, and the scales to it."""

    chart: Chart
    width: int
    x: _Scale
    y: _Scale
    left: float
    top: float
    bottom: float


def chart_svg(chart: Chart, *, width: int = WIDE) -> str:
    """Return the drawing of a chart."""
    frame = _frame(chart, width)
    height = frame.bottom + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" role="img" aria-label="{html_text(chart.title)}" '
        f'font-family="system-ui, sans-serif" font-size="{FONT}" fill="currentColor">',
        *_legend(chart, width),
        *_axes(frame),
        *(part for series in chart.series for part in _draw(series, frame)),
        "</svg>",
    ]
    return "\n".join(parts)


def chart_html(chart: Chart) -> str:
    """Return a chart drawn twice, for wide and for narrow screens; a style of the page shows the one that fits."""
    wide, narrow = (chart_svg(chart, width=width) for width in (WIDE, NARROW))
    return f'<div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


def _frame(chart: Chart, width: int) -> _Frame:
    longest = max((len(label) for label in chart.y.labels), default=0)
    left = min(longest * CHARACTER + 14, width * 0.42) if chart.y.labels else 12.0 if chart.y.is_hidden else 52.0
    top = 10.0 + LINE * len(_legend_rows(chart, width)) + (LINE if chart.y.title else 0)
    rows = len(chart.y.labels)
    height = rows * max(ROW, 15 * _bars(chart) + 8) if rows else PLOT_HEIGHT
    bottom = top + height
    # Room on the right for half of the last number below the axis.
    x = _scale(chart.x, _x_values(chart), pixels=(left + 8, width - 26))
    if rows:
        y = _Scale(-0.5, rows - 0.5, (top, bottom))
    else:
        y = _scale(chart.y, [point.y for point in chart.points], pixels=(bottom - 8, top + 8))
    return _Frame(chart, width, x, y, left, top, bottom)


def _x_values(chart: Chart) -> list[float]:
    ends = [end for point in chart.points for end in point.interval or ()]
    return [*(point.x for point in chart.points), *ends, *([0.0] if _bars(chart) else [])]


def _scale(axis: Axis, values: Sequence[float], *, pixels: tuple[float, float]) -> _Scale:
    drawn = [*values, *([] if axis.mark is None else [axis.mark])] or [0.0, 1.0]
    low, high = min(drawn), max(drawn)
    if axis.is_log:
        # A factor of at least 1.1, so that equal values are not divided by a width of zero.
        margin = max(high / low, 1.1) ** 0.06
        return _Scale(low / margin, high * margin, pixels, is_log=True)
    margin = max(high - low, abs(high) * 0.02, 1e-12) * 0.06
    starts_at_zero = low == 0
    return _Scale(low if starts_at_zero else low - margin, high + margin, pixels)


def _bars(chart: Chart) -> int:
    return sum(series.kind == "bars" for series in chart.series)


def _axes(frame: _Frame) -> Iterator[str]:
    chart, right = frame.chart, frame.x.pixels[1]
    for value in [] if chart.x.is_hidden else _ticks(frame.x, most=4 if frame.width < 500 else TICKS):
        at = frame.x(value)
        yield f'<path d="M{at} {frame.top:.0f}V{frame.bottom:.0f}" stroke="currentColor" opacity="0.12"/>'
        yield _text(at, frame.bottom + 16, _tick(value), anchor="middle")
    for number, label in enumerate(chart.y.labels):
        most = int((frame.left - 10) / CHARACTER)
        yield _text(frame.left, frame.y(number) + 4, _shorten(label, most), anchor="end", title=label)
    for value in [] if chart.y.labels or chart.y.is_hidden else _ticks(frame.y, most=TICKS):
        at = frame.y(value)
        yield f'<path d="M{frame.left:.0f} {at}H{right:.0f}" stroke="currentColor" opacity="0.12"/>'
        yield _text(frame.left - 6, at + 4, _tick(value), anchor="end")
    half = len(chart.x.title) * CHARACTER / 2
    # Moved to the left where it would be cut off on the right.
    middle = max(min((frame.left + right) / 2, frame.width - half), min(half, frame.width / 2))
    yield _text(middle, frame.bottom + 36, chart.x.title, anchor="middle")
    yield _text(0, frame.top - 8, chart.y.title)
    dashes = 'stroke="currentColor" stroke-dasharray="4 3" opacity="0.7"'
    if chart.x.mark is not None:
        yield f'<path d="M{frame.x(chart.x.mark)} {frame.top:.0f}V{frame.bottom:.0f}" {dashes}/>'
    if chart.y.mark is not None:
        yield f'<path d="M{frame.left:.0f} {frame.y(chart.y.mark)}H{right:.0f}" {dashes}/>'


def _ticks(scale: _Scale, *, most: int) -> list[float]:
    """Return round values on a scale."""
    if scale.is_log:
        exponents = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
        values = [step * 10.0**exponent for exponent in exponents for step in (1, 2, 5)]
        inside = [value for value in values if scale.low <= value <= scale.high]
        return inside if len(inside) <= most + 1 else inside[:: math.ceil(len(inside) / most)]
    step = _round_up((scale.high - scale.low) / most)
    first = math.ceil(scale.low / step)
    return [number * step for number in range(first, math.floor(scale.high / step) + 1)]


def _round_up(value: float) -> float:
    """Return the value, rounded up to 1, 2, 5 or 10 times a power of ten."""
    magnitude = 10.0 ** math.floor(math.log10(value))
    return next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= value * (1 - 1e-9))


def _tick(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def _draw(series: Series, frame: _Frame) -> Iterator[str]:
    if series.kind == "points":
        yield from (_point(point, frame, colour=series.colour) for point in series.points)
    elif series.kind == "bars":
        bars = [each for each in frame.chart.series if each.kind == "bars"]
        place = bars.index(series)
        yield from (_bar(point, frame, colour=series.colour, place=place, of=len(bars)) for point in series.points)
    elif series.points:
        width = 1 if series.kind == "segments" else 2
        path = _path(series, frame)
        yield f'<path d="{path}" stroke="{series.colour}" stroke-width="{width}" fill="none"/>'


def _path(series: Series, frame: _Frame) -> str:
    places = [(frame.x(point.x), frame.y(point.y)) for point in series.points]
    if series.kind == "segments":
        return "".join(f"{'L' if index % 2 else 'M'}{x} {y}" for index, (x, y) in enumerate(places))
    (x, y), *rest = places
    if series.kind == "steps":
        return f"M{x} {y}" + "".join(f"H{right}V{height}" for right, height in rest)
    return f"M{x} {y}" + "".join(f"L{right} {height}" for right, height in rest)


def _point(point: Point, frame: _Frame, *, colour: str) -> str:
    x, y = frame.x(point.x), frame.y(point.y)
    line = ""
    if point.interval:
        left, right = (frame.x(end) for end in point.interval)
        ends = "".join(f"M{at} {y - 5:.1f}V{y + 5:.1f}" for at in (left, right))
        line = f'<path d="M{left} {y}H{right}{ends}" stroke="{colour}" stroke-width="2" fill="none"/>'
    return f'{line}<circle cx="{x}" cy="{y}" r="4" fill="{colour}">{_title(point.text)}</circle>'


def _bar(point: Point, frame: _Frame, *, colour: str, place: int, of: int) -> str:
    height = 12
    top = frame.y(point.y) + (place - of / 2) * (height + 1)
    left, right = frame.x(0), frame.x(point.x)
    return (
        f'<rect x="{left}" y="{top:.1f}" width="{max(right - left, 1):.1f}" height="{height}" fill="{colour}">'
        f"{_title(point.text)}</rect>"
    )


def _legend_rows(chart: Chart, width: int) -> list[list[tuple[float, Series]]]:
    """Return the entries of the legend with their places, in as many rows as they need."""
    rows: list[list[tuple[float, Series]]] = []
    at = 0.0
    for series in chart.legend:
        length = 30 + len(series.name) * CHARACTER
        if not rows or at + length > width:
            rows.append([])
            at = 0.0
        rows[-1].append((at, series))
        at += length
    return rows


def _legend(chart: Chart, width: int) -> Iterator[str]:
    for number, row in enumerate(_legend_rows(chart, width)):
        y = 14 + number * LINE
        for x, series in row:
            yield f'<circle cx="{x + 5:.0f}" cy="{y - 4:.0f}" r="5" fill="{series.colour}"/>'
            yield _text(x + 14, y, series.name)


def _text(x: float, y: float, text: str, *, anchor: str = "start", title: str = "") -> str:
    return text and f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{html_text(text)}{_title(title)}</text>'


def _title(text: str) -> str:
    return f"<title>{html_text(text)}</title>" if text else ""


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 1, 1)]}…"
