"""An explored space as text: how much there is, and what it tells about the passes."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.report.table import paragraph, table, text_width

ENDS = {
    "seconds": "the time was up",
    "states": "enough states were found",
    "depth": "sequences were long enough",
    "closed": "the machine failed on the way",
}
SHOWN = 8


def space_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """What ``explore`` found.

    Args:
        document: As ``api.explore`` returns it.
        width: Characters a line may have; the terminal's by default.
    """
    wide = width or text_width()
    lines = [
        ("network", f"{document['model']['source']}, TVM {document['toolchain']['tvm_version']}, {document['target']}"),
        ("space", _size(document)),
        ("sequences", _sequences(document)),
        ("this time", f"{document['tried']} passes applied in {document['seconds']:.0f} s, {_kept(document)}"),
        ("left out, as it never closes with", ", ".join(document["left_out"]) or "nothing"),
        ("change nothing here", ", ".join(document["idle"]) or "none"),
        ("not the same twice", ", ".join(document["unsteady"]) or "none"),
        ("died or took too long", ", ".join(document["given_up"]) or "none"),
        ("change again what they changed", ", ".join(document["not_idempotent"]) or "none"),
        ("in any order the same", _pairs(document["commuting"])),
    ]
    if document["barriers"] is not None:
        lines.append(("never again after", _barriers(document["barriers"])))
    if not document["closed"]:
        part = document["closed_part"]
        lines.append(("a part that is closed", f"{part['states']} states by {', '.join(part['steps'])}"))
    parts = ["\n".join(paragraph(head, text, width=wide) for head, text in lines), _passes(document, wide)]
    return "\n\n".join(part for part in parts if part)


def check_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Whether a certificate holds."""
    wide = width or text_width()
    if document["holds"]:
        what = "closed" if document["closed"] else "open"
        told = f"{document['checked']} of {document['edges']} edges applied again, all as certified"
        return paragraph("holds", f"{told}; {document['states']} states, {what}", width=wide)
    return "\n".join(paragraph("does not hold", problem, width=wide) for problem in document["problems"])


def _size(document: Mapping[str, Any]) -> str:
    edges = f"{document['edges']} edges ({document['failed']} failed)"
    size = f"{document['states']} states, {edges}, depth {document['depth']}"
    if document["closed"]:
        but = " that does not die on the way" if document["given_up"] else ""
        return f"closed: {size}; no sequence of these passes{but}, however long, makes another IR"
    return f"not closed ({ENDS[document['ended']]}): {size}; {document['unfinished']} states have edges left to try"


def _kept(document: Mapping[str, Any]) -> str:
    if document["remembered"]:
        return "remembered for later runs"
    return "not remembered, as with --fresh or while another run on this network writes to the memory"


def _sequences(document: Mapping[str, Any]) -> str:
    row = document["sequences"][document["depth"]]
    up_to = sum(each["valid"] for each in document["sequences"][: document["depth"] + 1])
    longest = f"{row['all']:.3g} of {row['length']} passes, {row['valid']:.3g} of them valid"
    return f"{longest}; {up_to:.3g} valid up to that length"


def _pairs(pairs: Sequence[Sequence[str]]) -> str:
    return "; ".join(f"{first} and {second}" for first, second in pairs) or "none"


def _barriers(pairs: Sequence[Sequence[str]]) -> str:
    """By the pass that stands in the way."""
    after: dict[str, list[str]] = {}
    for first, second in pairs:
        after.setdefault(first, []).append(second)
    return "; ".join(f"{first}: {', '.join(seconds)}" for first, seconds in after.items()) or "none"


def _passes(document: Mapping[str, Any], width: int) -> str:
    """For every pass that does something: what it finds, what it makes possible and what it prevents."""
    found = document["new_states"]
    rows = [
        (step, str(found.get(step, 0)), _partners(document["enabling"], step), _partners(document["disabling"], step))
        for step in document["steps"]
        if step not in document["idle"]
    ]
    return table(("pass", "states found", "makes act", "keeps from acting"), rows, width=width, right=("states found",))


def _partners(rows: Sequence[Mapping[str, Any]], step: str) -> str:
    partners = [row["second"] for row in rows if row["first"] == step]
    more = f", {len(partners) - SHOWN} more" if len(partners) > SHOWN else ""
    return ", ".join(partners[:SHOWN]) + more
