"""Results as HTML fragments for notebooks: a table, and a plot of intervals drawn as SVG."""

from collections.abc import Mapping
from typing import Any

from passsearch.report.elements import details, fragment, html_table, paragraphs
from passsearch.report.formatting import format_pipeline, html_text, lookup
from passsearch.report.headline import headline_text
from passsearch.report.interval_plot import interval_plot
from passsearch.report.rows import baseline_name, column_titles, front_rows, level_rows, levels_title, result_rows
from passsearch.report.text import FRONT_TITLE, attribution_lines, evidence_lines, setup_lines
from passsearch.report.verdict import verdict_text, warning_lines


def result_html(document: Mapping[str, Any]) -> str:
    """Return a run's result as an HTML fragment for notebooks."""
    rows, floor = result_rows(document), lookup(document, "verdict", "noise_floor")
    return fragment(
        f'<p class="headline">{html_text(headline_text(document))}</p>',
        paragraphs(setup_lines(document)),
        f'<p class="verdict">{html_text(verdict_text(document))}</p>',
        paragraphs(warning_lines(document)),
        html_table(column_titles(document), [row.cells(document) for row in rows]),
        interval_plot(rows, baseline=baseline_name(document), noise_floor=floor),
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
    # The noise floor is of the confirmation, and these ratios are of the search's own measurements.
    plot = interval_plot(rows, baseline=baseline_name(document), noise_floor=None)
    return f"<p>{levels_title(document)}:</p>{html_table(column_titles(document), cells)}\n{plot}"


def front_html(document: Mapping[str, Any]) -> str:
    """Return the Pareto front with its pipelines; empty for one objective."""
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = paragraphs((row.label, format_pipeline(row.measurement)) for row in rows)
    cells = [row.cells(document) for row in rows]
    return f"<p>{FRONT_TITLE}:</p>{html_table(column_titles(document), cells)}{pipelines}"
