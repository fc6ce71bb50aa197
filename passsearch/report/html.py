"""Results as self-contained HTML: a table, and a plot of intervals drawn as SVG."""

from collections.abc import Iterable, Mapping
from typing import Any

from passsearch.report.formatting import format_pipeline, html_text, lookup
from passsearch.report.headline import headline_text
from passsearch.report.interval_plot import interval_plot
from passsearch.report.rows import baseline_name, column_titles, front_rows, level_rows, result_rows
from passsearch.report.text import FRONT_TITLE, LEVELS_TITLE, attribution_lines, evidence_lines, setup_lines
from passsearch.report.verdict import verdict_text, warning_lines

# No colours of its own for text: `currentColor` follows the theme of the notebook, light or dark.
_STYLE = """
.passsearch { font: 14px/1.45 system-ui, sans-serif; max-width: 60rem; }
.passsearch table { border-collapse: collapse; margin: 0.8em 0; }
.passsearch th, .passsearch td { padding: 0.2em 0.8em; text-align: right; border-bottom: 1px solid #8886; }
.passsearch th:first-child, .passsearch td:first-child { text-align: left; padding-left: 0; }
.passsearch tr.best { font-weight: 600; }
.passsearch p { margin: 0.3em 0; overflow-wrap: anywhere; text-align: left; }
.passsearch p.headline { font-size: 1.25em; font-weight: 600; }
.passsearch p.verdict { font-weight: 600; }
.passsearch svg { max-width: 100%; height: auto; }
.passsearch details { margin: 0.5em 0; }
"""


def result_html(document: Mapping[str, Any]) -> str:
    """Return a run's result as an HTML fragment for notebooks."""
    rows, floor = result_rows(document), lookup(document, "verdict", "noise_floor")
    verdict = html_text(verdict_text(document))
    return "\n".join(
        (
            f'<div class="passsearch"><style>{_STYLE}</style>',
            f'<p class="headline">{html_text(headline_text(document))}</p>',
            _paragraphs(setup_lines(document)),
            f'<p class="verdict">{verdict}</p>',
            _paragraphs(warning_lines(document)),
            _table(column_titles(document), [row.cells(document) for row in rows]),
            interval_plot(rows, baseline=baseline_name(document), noise_floor=floor),
            _levels(document),
            _pareto_front(document),
            _paragraphs(attribution_lines(document)),
            f"<p>best: <code>{html_text(format_pipeline(document.get('best')))}</code></p>",
            f"<details><summary>Evidence</summary>{_paragraphs(evidence_lines(document))}</details>",
            "</div>",
        )
    )


def result_page(document: Mapping[str, Any]) -> str:
    """Return a run's result as a complete HTML page."""
    title = html_text(f"passsearch: {lookup(document, 'model', 'name') or 'a run'}")
    # Without a script and without a link: the page can be mailed, archived and opened offline.
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{title}</title></head>\n<body>\n{result_html(document)}\n</body></html>\n"
    )


def _paragraphs(lines: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"<p>{html_text(title)}: {html_text(text)}</p>" for title, text in lines)


def _levels(document: Mapping[str, Any]) -> str:
    rows = level_rows(document)
    if not rows:
        return ""
    cells = [row.cells(document) for row in rows]
    # The noise floor is of the confirmation, and these ratios are of the search's own measurements.
    plot = interval_plot(rows, baseline=baseline_name(document), noise_floor=None)
    return f"<p>{LEVELS_TITLE}:</p>{_table(column_titles(document), cells)}\n{plot}"


def _pareto_front(document: Mapping[str, Any]) -> str:
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = _paragraphs((row.label, format_pipeline(row.measurement)) for row in rows)
    cells = [row.cells(document) for row in rows]
    return f"<p>{FRONT_TITLE}:</p>{_table(column_titles(document), cells)}{pipelines}"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "\n".join(_table_row(cells) for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _table_row(cells: tuple[str, ...]) -> str:
    css_class = ' class="best"' if cells[0].rstrip("*") == "best" else ""
    return f"<tr{css_class}>" + "".join(f"<td>{html_text(cell)}</td>" for cell in cells) + "</tr>"
