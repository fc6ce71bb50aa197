"""A fault that was reduced to a small network."""

from collections.abc import Mapping
from typing import Any

from passsearch.report.table import paragraph, table, text_width


def reproduction_text(document: Mapping[str, Any]) -> str:
    """Return the fault, the sizes before and after, and what was kept of the network."""
    width = text_width()
    if not document["kind"]:
        return paragraph("No fault is seen", f"{document['seen']}.", width=width)
    before, after = document["before"], document["after"]
    rows = [(name, f"{before[name]:,}", f"{after[name]:,}") for name in before]
    parts = [paragraph(f"{document['kind'].capitalize()}", f"{document['seen']}.", width=width)]
    parts += [table(("", "before", "after"), rows, width=width, right=("before", "after"))]
    by_reason: dict[str, list[str]] = {}
    for name, value in document["kept"].items():
        by_reason.setdefault(value["reason"], []).append(name)
    kept = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in by_reason.items())
    parts += [paragraph("Values that were kept", f"{kept}.", width=width)] if kept else []
    if document["kept_attributes"]:
        names = ", ".join(document["kept_attributes"])
        parts += [paragraph("Attributes and branches that keep their values", f"{names}.", width=width)]
    if document["foreign_operators"]:
        names = ", ".join(document["foreign_operators"])
        parts += [paragraph("Operators of other sets, which keep their names", f"{names}.", width=width)]
    if document["time_is_over"]:
        parts += ["The search ended early; a smaller network may exist."]
    if not document["confirmed"]:
        parts += [paragraph("", f"The last run of the script did not show it: {document['shown']}.", width=width)]
    end = f"{document['runs']} scripts in {document['seconds']:.0f} s. Run by {document['needs']}: "
    return "\n\n".join([*parts, paragraph("", f"{end}{document['folder']}/reproduce.py", width=width)])
