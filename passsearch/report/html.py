"""Results as HTML fragments for notebooks: a table, and a plot of intervals drawn as SVG."""

from collections.abc import Sequence

from passsearch.objectives import recorded_objective
from passsearch.report.charts import BEST, OTHER, chart_svg, ratio_chart
from passsearch.report.elements import details, fragment, html_table, paragraphs
from passsearch.report.formatting import format_pipeline, html_text
from passsearch.report.headline import headline_text
from passsearch.report.rivals import rival_lines
from passsearch.report.rows import Row, column_titles, front_rows, level_rows, levels_title, result_rows
from passsearch.report.text import FRONT_TITLE, attribution_lines, evidence_lines, setup_lines
from passsearch.report.verdict import verdict_text, warning_lines
from passsearch.results import RunResult


def result_html(result: RunResult) -> str:
    """Return a run's result as an HTML fragment for notebooks."""
    rows = result_rows(result)
    return fragment(
        f'<p class="headline">{html_text(headline_text(result))}</p>',
        paragraphs(setup_lines(result)),
        f'<p class="verdict">{html_text(verdict_text(result))}</p>',
        paragraphs(warning_lines(result)),
        paragraphs(rival_lines(result.rivals)),
        html_table(column_titles(result), [row.cells(result) for row in rows]),
        _plot(result, rows),
        levels_html(result),
        front_html(result),
        paragraphs(attribution_lines(result)),
        f"<p>best: <code>{html_text(format_pipeline(result.best))}</code></p>",
        details("Evidence", paragraphs(evidence_lines(result))),
    )


def levels_html(result: RunResult) -> str:
    """Return the table and the plot of the compiler's other levels; empty if there are none."""
    rows = level_rows(result)
    if not rows:
        return ""
    cells = [row.cells(result) for row in rows]
    plot = _plot(result, rows)
    return f"<p>{levels_title(result)}:</p>{html_table(column_titles(result), cells)}\n{plot}"


def _plot(result: RunResult, rows: Sequence[Row]) -> str:
    """Return the throughput of rows with its intervals, drawn; that of the winner is green where it is a gain."""
    verdict = result.verdict
    is_gain = verdict.improved and recorded_objective(verdict).is_speed
    colours = [BEST if is_gain and row.label == "best" else OTHER for row in rows]
    ratios = [(row.label, row.throughput_ratio) for row in rows]
    return chart_svg(ratio_chart("Throughput", f"throughput, {result.baseline_name} = 1", ratios, colours=colours))


def front_html(result: RunResult) -> str:
    """Return the Pareto front with its pipelines; empty for one objective."""
    rows = front_rows(result)
    if not rows:
        return ""
    pipelines = paragraphs((row.label, format_pipeline(row.candidate)) for row in rows)
    cells = [row.cells(result) for row in rows]
    return f"<p>{FRONT_TITLE}:</p>{html_table(column_titles(result), cells)}{pipelines}"
