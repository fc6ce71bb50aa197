"""Results as HTML fragments for notebooks: a table, and a plot of intervals drawn as SVG."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.objectives import recorded_objective
from passsearch.report.charts import BEST, OTHER, chart_svg, ratio_chart
from passsearch.report.elements import details, fragment, html_table, paragraphs
from passsearch.report.formatting import format_pipeline, html_text
from passsearch.report.headline import headline_text
from passsearch.report.rows import Row, baseline_name, column_titles, front_rows, level_rows, levels_title, result_rows
from passsearch.report.text import FRONT_TITLE, attribution_lines, evidence_lines, setup_lines
from passsearch.report.verdict import verdict_text, warning_lines


def result_html(document: Mapping[str, Any]) -> str:
    """Return a run's result as an HTML fragment for notebooks."""
    rows = result_rows(document)
    return fragment(
        f'<p class="headline">{html_text(headline_text(document))}</p>',
        paragraphs(setup_lines(document)),
        f'<p class="verdict">{html_text(verdict_text(document))}</p>',
        paragraphs(warning_lines(document)),
        html_table(column_titles(document), [row.cells(document) for row in rows]),
        _plot(document, rows),
        levels_html(document),
        front_html(document),
        paragraphs(attribution_lines(document)),
        f"<p>best: <code>{html_text(format_pipeline(document.get('best')))}</code></p>",
        details("Evidence", paragraphs(evidence_lines(document))),
    )


def levels_html(document: Mapping[str, Any]) -> str:
    """Return the table and the plot of the compiler's other levels; empty if there are none."""
    rows = level_rows(document)
    if not rows:
        return ""
    cells = [row.cells(document) for row in rows]
    plot = _plot(document, rows)
    return f"<p>{levels_title(document)}:</p>{html_table(column_titles(document), cells)}\n{plot}"


def _plot(document: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Return the throughput of rows with its intervals, drawn; that of the winner is green where it is a gain."""
    verdict = document.get("verdict") or {}
    is_gain = verdict.get("improved") and recorded_objective(verdict).is_speed
    colours = [BEST if is_gain and row.label == "best" else OTHER for row in rows]
    ratios = [(row.label, row.throughput_ratio) for row in rows]
    return chart_svg(ratio_chart("Throughput", f"throughput, {baseline_name(document)} = 1", ratios, colours=colours))


def front_html(document: Mapping[str, Any]) -> str:
    """Return the Pareto front with its pipelines; empty for one objective."""
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = paragraphs((row.label, format_pipeline(row.measurement)) for row in rows)
    cells = [row.cells(document) for row in rows]
    return f"<p>{FRONT_TITLE}:</p>{html_table(column_titles(document), cells)}{pipelines}"
