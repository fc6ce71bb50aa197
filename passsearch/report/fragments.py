"""Analyses, ablations, audits, spaces and catalog entries as HTML for notebooks, in the style of results."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.report.ablation_text import STEP_TITLES, ablation_lines, step_cells
from passsearch.report.elements import definitions, details, fragment, headline, html_table
from passsearch.report.engines import (
    KERNEL_TITLES,
    NUMBER_TITLES,
    engine_cells,
    friction_table,
    further_table,
    kernel_cells,
    remark_rows,
    setup_rows,
    tail_rows,
)
from passsearch.report.exploration import closure_lines, pass_rows, summary_lines
from passsearch.report.formatting import counted, format_time, html_text
from passsearch.report.listings import (
    CHECK_TITLES,
    PARAMETER_TITLES,
    RELATION_TITLES,
    audit_ratios,
    cell_text,
    check_cells,
    feature_row,
    need_text,
    parameter_row,
    relation_note,
    relation_rows,
)
from passsearch.results import Ablation, Audit, ExploredSpace


def ablation_html(ablation: Ablation) -> str:
    """Return an ablation: its conclusion, a row for each step, and the evidence."""
    return fragment(
        headline(ablation.headline),
        html_table(STEP_TITLES, [step_cells(row) for row in ablation.rows]),
        definitions(ablation_lines(ablation)),
    )


def engines_html(document: Mapping[str, Any]) -> str:
    """Return a benchmark of engines: tables for each batch size, and the friction of every engine."""
    parts = []
    for batch in document["batches"]:
        rows = [row for row in document["rows"] if row["batch"] == batch]
        cells = [engine_cells(row) for row in rows if "failure" not in row]
        titles, further = further_table(document, rows)
        kernels = kernel_cells(rows)
        parts += [
            headline(f"batch {batch}"),
            html_table(("engine", *NUMBER_TITLES), cells) if cells else "",
            html_table(titles, further) if further else "",
            html_table(KERNEL_TITLES, kernels) if kernels else "",
            definitions(remark_rows(rows)),
        ]
    titles, frictions = friction_table(document)
    return fragment(
        *parts,
        html_table(titles, frictions) if frictions else "",
        definitions(tail_rows(document)),
        details("Network and machine", definitions(setup_rows(document))),
    )


def audit_html(audit: Audit) -> str:
    """Return an audit: the verdict, the ratios measured again, and every check."""
    return fragment(
        headline(f"refused: {audit.refusal.name}" if audit.refusal else "signed off"),
        definitions([*audit_ratios(audit), ("date", format_time(audit.measured_at))]),
        html_table(CHECK_TITLES, check_cells(audit), is_text=True),
    )


def space_html(space: ExploredSpace) -> str:
    """Return an explored space: its size, and the effect of every pass."""
    closed = "closed" if space.closed else "not closed"
    return fragment(
        headline(f"{space.model.name}: {counted(space.states, 'state')}, {closed}"),
        definitions([*summary_lines(space), *closure_lines(space)]),
        html_table(("pass", "new states", "enables", "disables"), pass_rows(space), is_text=True),
    )


def analysis_html(document: Mapping[str, Any]) -> str:
    """Return the analysis of a network: classes with evidence, passes with reasons, and features.

    Args:
        document: An analysis, as ``passsearch analyze --json`` prints it.
    """
    operators = document.get("operators") or {}
    classes = [(label["name"], "; ".join(label["evidence"])) for label in document.get("classes") or []]
    features = [feature_row(name, feature) for name, feature in (document.get("fingerprint") or {}).items()]
    names = ", ".join(name for name, _ in classes) or "none"
    return fragment(
        headline(f"{sum(operators.values())} operators, class {names}"),
        definitions([("operators", ", ".join(f"{count} {kind}" for kind, count in operators.items())), *classes]),
        _reason_table("candidate passes", document.get("passes") or [], is_open=True),
        _reason_table("passes not in the search", document.get("dropped") or [], is_open=False),
        details("Features", html_table(("feature", "count", "first", "detail"), features, is_text=True)),
    )


def catalog_entry_html(entry: Mapping[str, Any]) -> str:
    """Return everything the catalog says about one pass, or about one named sequence."""
    apart = ("name", "parameters", "needs", "relations")
    lines = [(key, cell_text(value)) for key, value in entry.items() if key not in apart]
    if "needs" in entry:
        lines.append(("needs", ", ".join(need_text(need) for need in entry["needs"] or []) or "none"))
    rows = [parameter_row(parameter) for parameter in entry.get("parameters") or []]
    related = relation_rows(entry)
    return fragment(
        headline(str(entry["name"])),
        f"<p>{html_text(str(entry['summary']))}</p>",
        html_table(PARAMETER_TITLES, rows, is_text=True) if rows else "",
        definitions([(key, text) for key, text in lines if key != "summary"]),
        f"<p>{html_text(relation_note(entry))}</p>" if related else "",
        html_table(RELATION_TITLES, related, is_text=True) if related else "",
    )


def _reason_table(title: str, decisions: Sequence[Mapping[str, Any]], *, is_open: bool) -> str:
    rows = [(str(decision["name"]), str(decision["reason"])) for decision in decisions]
    table = html_table(("pass", "reason"), rows, is_text=True)
    return table if is_open else details(f"{len(rows)} {title}", table)
