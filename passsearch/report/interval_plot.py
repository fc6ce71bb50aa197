"""A plot of throughput with its intervals, and of compile time beside it, as SVG without a plotting library."""

from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.report.formatting import MISSING, format_number, html_text, lookup
from passsearch.report.rows import Row

WIDTH, TOP, ROW_HEIGHT = 720, 34, 24
_LABEL_X, _THROUGHPUT_X, _COMPILE_X = 58, (70, 380), (430, 650)
_BEST_COLOUR, _OTHER_COLOUR = "#1a7f5a", "#7a8699"


@dataclass(frozen=True)
class _Scale:
    """A linear map from values to pixels."""

    low: float
    high: float
    pixels: tuple[int, int]

    def __call__(self, value: float) -> float:
        left, right = self.pixels
        return round(left + (value - self.low) / (self.high - self.low) * (right - left), 1)


def interval_plot(rows: Sequence[Row], *, baseline: str, noise_floor: float | None) -> str:
    """Return the plot, one line per row: relative throughput as a point in its interval, compile time as a bar.

    Args:
        rows: Rows of one measurement; those of two measurements are not comparable.
        baseline: Name of what throughput is relative to.
        noise_floor: Share by which the baseline differs from itself in this measurement; ``None`` if unknown.
    """
    height = TOP + ROW_HEIGHT * len(rows) + 24
    throughput_scale, compile_scale = _throughput_scale(rows), _compile_scale(rows)
    titles = f"throughput relative to {baseline}", "compile time in seconds"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{html_text(" and ".join(titles))}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor">',
        _label(_THROUGHPUT_X[0], 14, text=titles[0]),
        _label(_COMPILE_X[0], 14, text=titles[1]),
        _noise_band(noise_floor, throughput_scale, height=height),
        _axis(throughput_scale, height),
    ]
    for index, row in enumerate(rows):
        middle = TOP + ROW_HEIGHT * index + ROW_HEIGHT // 2
        parts += [
            _label(_LABEL_X, middle + 4, text=row.label, anchor="end"),
            _point(row, throughput_scale, middle=middle),
            _bar(row, compile_scale, middle=middle),
        ]
    return "\n".join([*parts, "</svg>"])


def _throughput_scale(rows: Sequence[Row]) -> _Scale:
    values = [1.0]
    for row in rows:
        ends = lookup(row.throughput_ratio, "interval") or []
        values += [value for value in (lookup(row.throughput_ratio, "ratio"), *ends) if value is not None]
    low, high = min(values), max(values)
    # At least 0.02 wide: without that, rows that are all equal to the baseline would be divided by a width of zero.
    padding = max(high - low, 0.02) * 0.08
    return _Scale(low - padding, high + padding, _THROUGHPUT_X)


def _compile_scale(rows: Sequence[Row]) -> _Scale:
    longest_s = max((row.measurement.get("compile_s") or 0.0 for row in rows), default=0.0)
    return _Scale(0.0, longest_s or 1.0, _COMPILE_X)


def _noise_band(floor: float | None, scale: _Scale, *, height: int) -> str:
    """Return a band of the noise floor's width: smaller differences are noise."""
    if not floor:
        return ""
    # Clipped: a noise floor larger than all differences would reach into the labels beside the plot.
    left, right = scale(max(1 - floor, scale.low)), scale(min(1 + floor, scale.high))
    box = f'x="{left}" y="{TOP}" width="{right - left:.1f}" height="{height - TOP - 20}"'
    return f'<rect {box} fill="{_OTHER_COLOUR}" opacity="0.25"><title>noise floor</title></rect>'


def _axis(scale: _Scale, height: int) -> str:
    bottom, one = height - 20, scale(1.0)
    line = f'<line x1="{one}" x2="{one}" y1="{TOP}" y2="{bottom}" stroke="currentColor" stroke-dasharray="3 3"/>'
    ticks = [_label(scale(value), height - 6, text=format_number(value), anchor="middle") for value in _ticks(scale)]
    return "\n".join([line, *ticks])


def _ticks(scale: _Scale) -> list[float]:
    """Return 1 and the ends of the scale, without an end so close to 1 that their labels would overlap."""
    ends = [value for value in (scale.low, scale.high) if abs(scale(value) - scale(1.0)) > 40]
    return sorted([1.0, *ends])


def _point(row: Row, scale: _Scale, *, middle: int) -> str:
    value, interval = lookup(row.throughput_ratio, "ratio"), lookup(row.throughput_ratio, "interval")
    if value is None:
        return _label(_THROUGHPUT_X[0], middle + 4, text=MISSING)
    colour = _colour(row)
    dot = f'<circle cx="{scale(value)}" cy="{middle}" r="3" fill="{colour}"/>'
    # Too few samples give an interval without ends, which has no width to draw.
    if not interval or None in interval:
        return dot
    left, right = map(scale, interval)
    ends = "".join(f"M{x} {middle - 5}V{middle + 5}" for x in (left, right))
    return f'<path d="M{left} {middle}H{right}{ends}" stroke="{colour}" stroke-width="2" fill="none"/>{dot}'


def _bar(row: Row, scale: _Scale, *, middle: int) -> str:
    compile_s = row.measurement.get("compile_s")
    if compile_s is None:
        return _label(_COMPILE_X[0], middle + 4, text=MISSING)
    left, right = _COMPILE_X[0], scale(compile_s)
    box = f'<rect x="{left}" y="{middle - 7}" width="{right - left:.1f}" height="14" fill="{_colour(row)}"/>'
    return box + _label(right + 6, middle + 4, text=f"{format_number(compile_s)} s")


def _colour(row: Row) -> str:
    return _BEST_COLOUR if row.label == "best" else _OTHER_COLOUR


def _label(x: float, y: float, *, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{html_text(text)}</text>'
