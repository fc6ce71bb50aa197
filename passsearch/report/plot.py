"""Throughput with its intervals and compile time side by side, drawn as SVG without a plotting library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from passsearch.report.rows import Row, baseline_name
from passsearch.report.wording import at, number

WIDTH, TOP, STEP = 720, 34, 24
_LABELS, _FIRST, _SECOND = 58, (70, 380), (430, 650)
_BEST, _OTHER = "#1a7f5a", "#7a8699"


@dataclass(frozen=True)
class _Scale:
    low: float
    high: float
    pixels: tuple[int, int]

    def __call__(self, value: float) -> float:
        left, right = self.pixels
        return round(left + (value - self.low) / (self.high - self.low) * (right - left), 1)


def interval_plot(document: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """One line per row: relative throughput as a point in its interval, compile time as a bar."""
    height = TOP + STEP * len(rows) + 24
    speed, seconds = _speed_scale(rows), _seconds_scale(rows)
    titles = f"throughput relative to {baseline_name(document)}", "seconds to compile"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
        f'aria-label="{escape(" and ".join(titles))}" font-family="system-ui, sans-serif" font-size="12" '
        'fill="currentColor">',
        _said(_FIRST[0], 14, text=titles[0]),
        _said(_SECOND[0], 14, text=titles[1]),
        _noise(document, speed, height=height),
        _axis(speed, height),
    ]
    for place, row in enumerate(rows):
        middle = TOP + STEP * place + STEP // 2
        parts += [
            _said(_LABELS, middle + 4, text=row.label, anchor="end"),
            _point(row, speed, middle=middle),
            _bar(row, seconds, middle=middle),
        ]
    return "\n".join([*parts, "</svg>"])


def _speed_scale(rows: Sequence[Row]) -> _Scale:
    values = [1.0]
    for row in rows:
        ends = at(row.throughput, "interval") or []
        values += [value for value in (at(row.throughput, "ratio"), *ends) if value is not None]
    low, high = min(values), max(values)
    room = max(high - low, 0.02) * 0.08
    return _Scale(low - room, high + room, _FIRST)


def _seconds_scale(rows: Sequence[Row]) -> _Scale:
    return _Scale(0.0, max([row.measured.get("compile_s") or 0.0 for row in rows] or [0.0]) or 1.0, _SECOND)


def _noise(document: Mapping[str, Any], scale: _Scale, *, height: int) -> str:
    """A band for what the machine calls equal."""
    floor = at(document, "verdict", "noise_floor")
    if not floor:
        return ""
    left, right = scale(max(1 - floor, scale.low)), scale(min(1 + floor, scale.high))
    box = f'x="{left}" y="{TOP}" width="{right - left:.1f}" height="{height - TOP - 20}"'
    return f'<rect {box} fill="{_OTHER}" opacity="0.25"><title>noise floor</title></rect>'


def _axis(scale: _Scale, height: int) -> str:
    bottom, one = height - 20, scale(1.0)
    line = f'<line x1="{one}" x2="{one}" y1="{TOP}" y2="{bottom}" stroke="currentColor" stroke-dasharray="3 3"/>'
    ticks = [_said(scale(value), height - 6, text=number(value), anchor="middle") for value in _ticks(scale)]
    return "\n".join([line, *ticks])


def _ticks(scale: _Scale) -> list[float]:
    """The ends and 1, unless an end stands so near that their numbers would overlap."""
    ends = [value for value in (scale.low, scale.high) if abs(scale(value) - scale(1.0)) > 40]
    return sorted([1.0, *ends])


def _point(row: Row, scale: _Scale, *, middle: int) -> str:
    value, interval = at(row.throughput, "ratio"), at(row.throughput, "interval")
    if value is None:
        return _said(_FIRST[0], middle + 4, text="–")
    colour = _BEST if row.label == "best" else _OTHER
    dot = f'<circle cx="{scale(value)}" cy="{middle}" r="3" fill="{colour}"/>'
    if not interval or None in interval:
        return dot
    left, right = map(scale, interval)
    ends = "".join(f"M{x} {middle - 5}V{middle + 5}" for x in (left, right))
    return f'<path d="M{left} {middle}H{right}{ends}" stroke="{colour}" stroke-width="2" fill="none"/>{dot}'


def _bar(row: Row, scale: _Scale, *, middle: int) -> str:
    seconds = row.measured.get("compile_s")
    if seconds is None:
        return _said(_SECOND[0], middle + 4, text="–")
    colour, left, right = _BEST if row.label == "best" else _OTHER, _SECOND[0], scale(seconds)
    box = f'<rect x="{left}" y="{middle - 7}" width="{right - left:.1f}" height="14" fill="{colour}"/>'
    return box + _said(right + 6, middle + 4, text=f"{number(seconds)} s")


def _said(x: float, y: float, *, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
