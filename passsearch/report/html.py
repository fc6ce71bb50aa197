"""Results as HTML that needs nothing else: a table, and a plot of intervals drawn as SVG."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from passsearch.report.plot import interval_plot
from passsearch.report.rows import front_rows, heads, result_rows
from passsearch.report.text import FRONT, account, subject
from passsearch.report.wording import at, passes_text, verdict_text

# Colours are the surroundings' own (`currentColor`), so that light and dark notebooks both show them well.
_STYLE = """
.passsearch { font: 14px/1.45 system-ui, sans-serif; max-width: 60rem; }
.passsearch table { border-collapse: collapse; margin: 0.8em 0; }
.passsearch th, .passsearch td { padding: 0.2em 0.8em; text-align: right; border-bottom: 1px solid #8886; }
.passsearch th:first-child, .passsearch td:first-child { text-align: left; padding-left: 0; }
.passsearch tr.best { font-weight: 600; }
.passsearch p { margin: 0.3em 0; overflow-wrap: anywhere; text-align: left; }
.passsearch p.verdict { font-weight: 600; }
.passsearch svg { max-width: 100%; height: auto; }
.passsearch details { margin: 0.5em 0; }
"""


def result_html(document: Mapping[str, Any]) -> str:
    """A run's result as a fragment for notebooks."""
    rows = result_rows(document)
    verdict = escape(verdict_text(document))
    return "\n".join(
        (
            f'<div class="passsearch"><style>{_STYLE}</style>',
            _paragraphs(subject(document)),
            f'<p class="verdict">{verdict}</p>',
            _table(heads(document), [row.cells(document) for row in rows]),
            _front(document),
            interval_plot(document, rows),
            f"<p>best: <code>{escape(passes_text(document.get('best')))}</code></p>",
            f"<details><summary>How it was reached</summary>{_paragraphs(account(document))}</details>",
            "</div>",
        )
    )


def result_page(document: Mapping[str, Any]) -> str:
    """A run's result as a page of its own."""
    title = escape(f"passsearch: {at(document, 'model', 'name') or 'a run'}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">'
        f"<title>{title}</title></head>\n<body>\n{result_html(document)}\n</body></html>\n"
    )


def _paragraphs(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"<p>{escape(name)}: {escape(text)}</p>" for name, text in pairs)


def _front(document: Mapping[str, Any]) -> str:
    rows = front_rows(document)
    if not rows:
        return ""
    pipelines = _paragraphs((row.label, passes_text(row.measured)) for row in rows)
    return f"<p>{FRONT}:</p>{_table(heads(document), [row.cells(document) for row in rows])}{pipelines}"


def _table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "\n".join(_line(cells) for cells in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _line(cells: tuple[str, ...]) -> str:
    mark = ' class="best"' if cells[0] == "best" else ""
    return f"<tr{mark}>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
