"""A chart as plain data, which is drawn as static SVG for pages and as a plotly figure for notebooks."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["points", "line", "steps", "segments", "bars"]
"""How points of a series are drawn. ``segments`` joins the first with the second, the third with the fourth, …"""

BEST, BASELINE, OTHER, FAILED, ACCENT = "#1f9d6c", "#c8663d", "#8391a5", "#c23b4b", "#3f86c6"
"""Colours that are legible on white and on black."""

LEAST, MOST = 1e-15, 1e15
"""Values that are drawn."""


@dataclass(frozen=True)
class Point:
    """One value.

    Attributes:
        x: Position to the right.
        y: Position upwards, or the number of a label of the axis.
        text: Text that is shown when the pointer is on the point.
        interval: Ends of the confidence interval of ``x``.
    """

    x: float
    y: float
    text: str = ""
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Series:
    """Points of one meaning.

    Attributes:
        name: Name in the legend; empty to leave the series out of it.
        points: The points.
        kind: How they are drawn.
        colour: Colour in hexadecimal.
    """

    name: str
    points: tuple[Point, ...]
    kind: Kind = "points"
    colour: str = OTHER


@dataclass(frozen=True)
class Axis:
    """An axis.

    Attributes:
        title: What is on it, with its unit.
        labels: Names of the values 0, 1, 2, …, from the top down; empty on an axis of numbers.
        is_log: True for a logarithmic scale; all values are then above 0.
        is_hidden: True for an axis without numbers.
        mark: Value at which a dashed line stands, such as a ratio of 1.
    """

    title: str
    labels: tuple[str, ...] = ()
    is_log: bool = False
    is_hidden: bool = False
    mark: float | None = None


@dataclass(frozen=True)
class Chart:
    """A chart.

    Attributes:
        title: What it shows, in a phrase.
        x: The horizontal axis.
        y: The vertical axis.
        series: The series; later ones are drawn over earlier ones.
    """

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All points of all series."""
        return tuple(point for series in self.series for point in series.points)

    @property
    def legend(self) -> tuple[Series, ...]:
        """The series that have a name and a point."""
        return tuple(series for series in self.series if series.name and series.points)


def drawable(value: float | None) -> float | None:
    """Return a value above 0 that has a place on an axis; ``None`` for anything else, as in files of others."""
    return float(value) if value is not None and LEAST <= value <= MOST else None


def spans_much(values: list[float]) -> bool:
    """Return whether values are better shown on a logarithmic scale."""
    return bool(values) and min(values) > 0 and max(values) / min(values) > 8
