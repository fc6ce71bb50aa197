"""Charts as plotly figures, for notebooks. The only module that imports plotly."""

from collections.abc import Mapping
from html import escape
from typing import Any

from passsearch.core import install_command, printable
from passsearch.errors import UserError
from passsearch.report.charts.chart import Axis, Chart, Series
from passsearch.report.charts.svg import chart_svg

INSTALL = install_command("notebook")
"""Command that installs what figures and data frames need."""

_SHAPES = {"line": "linear", "steps": "hv", "segments": "linear"}


def plotly_figure(chart: Chart) -> Any:
    """Return a chart as a ``plotly.graph_objects.Figure``.

    Raises:
        UserError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise UserError(f"Plots need plotly, which is not installed; run: {INSTALL}") from None
    rows = len(chart.y.labels)
    figure = _figure_class(go.Figure, chart_svg(chart))(
        [_trace(go, series, chart) for series in chart.series if series.points]
    )
    figure.update_layout(
        title={"text": _text(chart.title), "y": 1, "yanchor": "top", "pad": {"t": 14}},
        template="plotly_white",
        barmode="group",
        height=140 + 44 * rows if rows else 420,
        margin={"l": 20, "r": 20, "t": 80, "b": 40},
        # Above the chart, so that a long name does not make the chart narrow.
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        xaxis=_axis(chart.x),
        yaxis=_axis(chart.y),
    )
    if chart.x.mark is not None:
        figure.add_vline(x=chart.x.mark, line_dash="dash", line_color="#888")
    if chart.y.mark is not None:
        figure.add_hline(y=chart.y.mark, line_dash="dash", line_color="#888")
    return figure


def _figure_class(base: Any, drawing: str) -> Any:
    """Return plotly's class of figures with a static drawing beside the figure.

    Viewers that run no script, such as those of code hosts, show a notebook's drawing instead of nothing.
    """

    class Figure(base):  # type: ignore[misc]
        # The first would show the figure alone, the second loads a script from the network.
        _ipython_display_ = _repr_html_ = None

        def _repr_mimebundle_(self, *args: Any, **options: Any) -> dict[str, Any]:
            return {**super()._repr_mimebundle_(*args, **options), "image/svg+xml": drawing}

    return Figure


def _trace(go: Any, series: Series, chart: Chart) -> Any:
    common = {"name": _text(series.name), "showlegend": bool(series.name)}
    x, y = [point.x for point in series.points], [point.y for point in series.points]
    texts = [_text(point.text) for point in series.points]
    if series.kind == "bars":
        return go.Bar(
            x=x, y=y, orientation="h", marker_color=series.colour, hovertext=texts, hoverinfo="text", **common
        )
    if series.kind == "points":
        return go.Scatter(
            x=x,
            y=y,
            mode="markers",
            marker={"color": series.colour, "size": 9},
            error_x=_error_bars(series),
            hovertext=texts,
            hoverinfo="text",
            **common,
        )
    if series.kind == "segments":
        # plotly interrupts a line where a value is missing.
        x, y = _with_gaps(x), _with_gaps(y)
    line = {"color": series.colour, "shape": _SHAPES[series.kind], "width": 1 if series.kind == "segments" else 2}
    return go.Scatter(x=x, y=y, mode="lines", line=line, hoverinfo="skip", **common)


def _error_bars(series: Series) -> Mapping[str, Any] | None:
    if not any(point.interval for point in series.points):
        return None
    ends = [point.interval or (point.x, point.x) for point in series.points]
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - point.x for point, (_, high) in zip(series.points, ends, strict=True)],
        "arrayminus": [point.x - low for point, (low, _) in zip(series.points, ends, strict=True)],
    }


def _with_gaps(values: list[float]) -> list[Any]:
    return [each for index in range(0, len(values), 2) for each in (*values[index : index + 2], None)]


def _axis(axis: Axis) -> dict[str, Any]:
    layout: dict[str, Any] = {"title": _text(axis.title), "type": "log" if axis.is_log else "linear"}
    if axis.labels:
        numbers = list(range(len(axis.labels)))
        layout |= {
            "tickvals": numbers,
            "ticktext": [_text(label) for label in axis.labels],
            "autorange": "reversed",
        }
        layout |= {"automargin": True}
    if axis.is_hidden:
        layout |= {"showticklabels": False, "showgrid": False, "zeroline": False}
    return layout


def _text(text: str) -> str:
    """Return a text without marks, which plotly would read as HTML; quotes it shows as they are."""
    return escape(printable(text), quote=False)
