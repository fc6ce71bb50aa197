"""An explored space and a checked certificate as text for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.report.formatting import import_text
from passsearch.report.table import paragraph, table, text_width
from passsearch.results import Reference

LIMITS = {
    "seconds": "time limit reached",
    "states": "limit of states reached",
    "depth": "limit of the sequence length reached",
    # No limit was reached and no edge is left, yet some failed for reasons of the machine, not of the pass.
    "closed": "some passes could not be applied because the machine failed",
}
MAX_PARTNERS = 8
"""Most passes that are listed in one cell of the table."""
MAX_PAIRS = 8
"""Most pairs of passes that are listed in a line."""


def space_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return the size of an explored space, and what it shows about the passes.

    Args:
        document: An explored space, as ``api.explore`` returns it.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    lines = [*summary_lines(document), *closure_lines(document)]
    summary = "\n".join(paragraph(title, text, width=width) for title, text in lines)
    return "\n\n".join(part for part in (summary, _pass_table(document, width)) if part)


def certificate_check_text(document: Mapping[str, Any], *, width: int | None = None) -> str:
    """Return whether a certificate holds, and every edge that contradicts it.

    Args:
        document: The outcome, as ``api.check_space`` returns it.
        width: Largest number of characters in a line; the terminal's width by default.
    """
    width = width or text_width()
    if document["holds"]:
        checked = f"{document['checked']} of {document['edges']} edges applied again, all as certified"
        space = f"{document['states']} states, {'closed' if document['closed'] else 'not closed'}"
        return paragraph("the certificate holds", f"{checked}; {space}", width=width)
    return "\n".join(paragraph("does not hold", problem, width=width) for problem in document["problems"])


def summary_lines(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return titles and texts on an explored space: its size, and what the passes did in it."""
    network = f"{document['model']['source']}, TVM {document['toolchain']['tvm_version']}, {document['target']}"
    applied = f"{document['tried']} passes applied in {document['seconds']:.0f} s, {_cache_note(document)}"
    return [
        ("network", network),
        *_import_lines(document.get("reference")),
        ("space", _size(document)),
        ("sequences", _sequences(document)),
        ("this call", applied),
        ("passes left out (with them the space never closes)", ", ".join(document["left_out"]) or "none"),
        ("passes that change nothing here", ", ".join(document["idle"]) or "none"),
        ("nondeterministic passes", ", ".join(document["unsteady"]) or "none"),
        ("passes that crashed, timed out or ran out of memory", ", ".join(document["given_up"]) or "none"),
        ("passes that change the IR again when repeated", ", ".join(document["not_idempotent"]) or "none"),
        ("pairs that give the same IR in both orders", _pairs(document["commuting"])),
    ]


def _import_lines(reference: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return what proves the import; nothing for a space from before it was recorded."""
    return [] if reference is None else [("import", import_text(Reference.from_json(reference)))]


def closure_lines(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what only a closed space can say, or which part of an open space is closed."""
    lines = []
    if document["barriers"] is not None:
        lines.append(("passes that can never act again after another pass", _barriers(document["barriers"])))
    if not document["closed"]:
        part = document["closed_part"]
        lines.append(("closed part of the space", f"{part['states']} states with {', '.join(part['steps'])}"))
    return lines


def _size(document: Mapping[str, Any]) -> str:
    edges = f"{document['edges']} edges ({document['failed']} failed)"
    size = f"{document['states']} states, {edges}, depth {document['depth']}"
    if document["closed"]:
        # What a crashed pass would have produced is unknown, so the claim must exclude sequences that crash.
        excluded = " that does not crash, time out or run out of memory" if document["given_up"] else ""
        return f"closed: {size}; no sequence of these passes{excluded}, however long, makes another IR"
    return f"not closed ({LIMITS[document['ended']]}): {size}; {document['unfinished']} states have untried edges"


def _cache_note(document: Mapping[str, Any]) -> str:
    if document["remembered"]:
        return "stored in the fact cache for later runs"
    return "not stored in the fact cache (because of --fresh, or because another run on this network is writing to it)"


def _sequences(document: Mapping[str, Any]) -> str:
    # Every state is reached within `depth` passes, so longer sequences only repeat IRs and are not worth counting.
    row = document["sequences"][document["depth"]]
    valid = sum(shorter["valid"] for shorter in document["sequences"][: document["depth"] + 1])
    longest = f"{row['all']:.3g} of {row['length']} passes, {row['valid']:.3g} of them valid"
    return f"{longest}; {valid:.3g} valid ones of at most {row['length']} passes"


def _pairs(pairs: Sequence[Sequence[str]]) -> str:
    """Return the pairs; of many, as open spaces have, their number and the first."""
    shown = "; ".join(f"{first} and {second}" for first, second in pairs[:MAX_PAIRS]) or "none"
    if len(pairs) <= MAX_PAIRS:
        return shown
    return f"{len(pairs)}, for example {shown}; all are in `commuting` with --json"


def _barriers(pairs: Sequence[Sequence[str]]) -> str:
    """Return, for every pass, the passes that change nothing any more after it."""
    by_first: dict[str, list[str]] = {}
    for first, second in pairs:
        by_first.setdefault(first, []).append(second)
    return "; ".join(f"after {first}: {', '.join(seconds)}" for first, seconds in by_first.items()) or "none"


def _pass_table(document: Mapping[str, Any], width: int) -> str:
    titles = ("pass", "new states", "enables", "disables")
    return table(titles, pass_rows(document), width=width, right=("new states",))


def pass_rows(document: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return a row per pass with an effect: states it reached first, passes it enables, passes it disables."""
    new_states = document["new_states"]
    return [
        (
            step,
            str(new_states.get(step, 0)),
            _partners(document["enabling"], step),
            _partners(document["disabling"], step),
        )
        for step in document["steps"]
        if step not in document["idle"]
    ]


def _partners(pairs: Sequence[Mapping[str, Any]], step: str) -> str:
    partners = [pair["second"] for pair in pairs if pair["first"] == step]
    more = f", {len(partners) - MAX_PARTNERS} more" if len(partners) > MAX_PARTNERS else ""
    return ", ".join(partners[:MAX_PARTNERS]) + more
