"""Elements of HTML pages and notebook fragments: one style, every text escaped."""

from collections.abc import Iterable, Sequence

from passsearch.report.formatting import html_text

# In a notebook no colours of its own for text: `currentColor` follows the notebook's theme, light or dark. The style of
# the notebook floats the items of lists, which the last rule undoes.
FRAGMENT_STYLE = """
.passsearch { font: 14px/1.5 system-ui, sans-serif; max-width: 62rem; }
.passsearch table { border-collapse: collapse; margin: 0.6em 0; font-variant-numeric: tabular-nums; }
.passsearch th, .passsearch td { padding: 0.3em 0.8em; text-align: right; border-bottom: 1px solid #8885;
  vertical-align: top; }
.passsearch th { font-weight: 600; opacity: 0.75; }
.passsearch td, .passsearch th { white-space: nowrap; }
.passsearch table.text th, .passsearch table.text td { text-align: left; }
.passsearch table.text td { white-space: normal; overflow-wrap: anywhere; }
.passsearch th:first-child, .passsearch td:first-child { text-align: left; padding-left: 0; }
.passsearch tr.best { font-weight: 600; }
.passsearch .scroll { overflow-x: auto; }
.passsearch p { margin: 0.3em 0; overflow-wrap: anywhere; text-align: left; }
.passsearch p.headline { font-size: 1.25em; font-weight: 600; }
.passsearch p.verdict { font-weight: 600; }
.passsearch code, .passsearch pre { font: 0.92em/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
.passsearch svg { max-width: 100%; height: auto; }
.passsearch details { margin: 0.6em 0; }
.passsearch summary { cursor: pointer; }
.passsearch .narrow { display: none; }
.passsearch dl { display: grid; grid-template-columns: max-content 1fr; gap: 0.25em 1.2em; margin: 0.6em 0; }
.passsearch dl > dt, .passsearch dl > dd { float: none; width: auto; margin: 0; padding: 0; min-width: 0;
  overflow-wrap: anywhere; }
"""

PAGE_STYLE = """
:root { color-scheme: light dark; --paper: #fbfbfa; --card: #ffffff; --ink: #1d2329; --soft: #5d6874;
  --line: #dfe3e8; --good: #14794f; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171b; --card: #1c2026; --ink: #e4e7eb; --soft: #9aa5b1;
  --line: #333a43; --good: #4fcf9a; } }
body { margin: 0; background: var(--paper); color: var(--ink); }
.passsearch { margin: 0 auto; max-width: 66rem; padding: 1.5rem 1.25rem 3rem; font-size: 15px; }
.passsearch th, .passsearch td { padding: 0.3em 0.6em; }
.passsearch h1 { font-size: 1.7rem; line-height: 1.25; margin: 0.3rem 0 0.6rem; overflow-wrap: anywhere; }
.passsearch h2 { font-size: 1.15rem; margin: 0 0 0.6rem; }
.passsearch h3 { font-size: 1rem; margin: 1.1rem 0 0.3rem; font-weight: 600; }
.passsearch section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.2rem; margin: 1rem 0; }
.passsearch .mark { color: var(--good); font-weight: 700; letter-spacing: 0.02em; margin: 0; }
.passsearch .soft, .passsearch dt { color: var(--soft); }
.passsearch pre { background: var(--paper); border: 1px solid var(--line); border-radius: 8px; padding: 0.7rem 0.9rem;
  white-space: pre-wrap; margin: 0.5rem 0; }
.passsearch table.text { width: 100%; }
.passsearch table.text td { min-width: 5rem; max-width: 24rem; }
@media (max-width: 600px) {
  .passsearch { padding: 1rem 0.6rem 2rem; }
  .passsearch section { padding: 0.8rem 0.7rem; }
  .passsearch h1 { font-size: 1.35rem; }
  .passsearch .wide { display: none; }
  .passsearch .narrow { display: block; }
  .passsearch dl { grid-template-columns: 1fr; gap: 0; }
  .passsearch dl > dd { margin-bottom: 0.5rem; }
  .passsearch th, .passsearch td { padding: 0.3em 0.5em; }
  .passsearch table.text thead { display: none; }
  .passsearch table.text td { display: block; border: none; padding: 0.1em 0; max-width: none; }
  .passsearch table.text td:first-child { font-weight: 600; border-top: 1px solid var(--line); padding-top: 0.4em; }
  .passsearch table.text td:last-child { padding-bottom: 0.4em; }
  .passsearch table.text td:not(:first-child)::before { content: attr(data-title) ": "; color: var(--soft); }
}
@media print { .passsearch section { break-inside: avoid; } }
"""


def fragment(*parts: str) -> str:
    """Return parts as one fragment for a notebook."""
    return "\n".join((f'<div class="passsearch"><style>{FRAGMENT_STYLE}</style>', *filter(None, parts), "</div>"))


def page(title: str, *parts: str) -> str:
    """Return parts as a complete page."""
    # Without a script and without a link: the page can be mailed, archived and opened offline.
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html_text(title)}</title><style>{FRAGMENT_STYLE}{PAGE_STYLE}</style></head>\n<body>\n"
        + "\n".join(('<div class="passsearch">', *filter(None, parts), "</div>"))
        + "\n</body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """Return a part of a page with a title."""
    return "\n".join((f"<section><h2>{html_text(title)}</h2>", *filter(None, parts), "</section>"))


def details(summary: str, *parts: str) -> str:
    """Return parts that a click on the summary shows."""
    content = "\n".join(filter(None, parts))
    return f"<details><summary>{html_text(summary)}</summary>{content}</details>" if content else ""


def headline(text: str) -> str:
    """Return the first line of a fragment."""
    return f'<p class="headline">{html_text(text)}</p>'


def note(text: str) -> str:
    """Return a remark."""
    return f'<p class="soft">{html_text(text)}</p>' if text else ""


def paragraphs(lines: Iterable[tuple[str, str]]) -> str:
    """Return a paragraph for every title and text."""
    return "\n".join(f"<p>{html_text(title)}: {html_text(text)}</p>" for title, text in lines)


def definitions(lines: Iterable[tuple[str, str]]) -> str:
    """Return titles and texts in two columns."""
    rows = "\n".join(f"<dt>{html_text(title)}</dt><dd>{html_text(text)}</dd>" for title, text in lines)
    return f"<dl>{rows}</dl>" if rows else ""


def html_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, is_text: bool = False) -> str:
    """Return a table; the row of the best candidate is bold.

    Args:
        titles: Titles of the columns.
        rows: Rows of cells, one cell per column.
        is_text: True for cells of words, which are aligned to the left.
    """
    head = "".join(f"<th>{html_text(title)}</th>" for title in titles)
    body = "\n".join(_table_row(cells, titles if is_text else ()) for cells in rows)
    kind = ' class="text"' if is_text else ""
    table = f"<table{kind}><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _table_row(cells: Sequence[str], titles: Sequence[str]) -> str:
    css_class = ' class="best"' if cells and cells[0].rstrip("*") == "best" else ""
    # On a narrow screen the cells of words stand below each other, each with the title of its column.
    names = [f' data-title="{html_text(title)}"' for title in titles] or [""] * len(cells)
    return f"<tr{css_class}>" + "".join(map(_cell, cells, names)) + "</tr>"


def _cell(text: str, attribute: str) -> str:
    return f"<td{attribute}>{html_text(text)}</td>"
