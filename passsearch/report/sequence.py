"""What a winner gains over the best sequence of the catalog, which a user has without a search."""

from collections.abc import Mapping
from typing import Any

from passsearch.report.formatting import format_ratio, lookup


def sequence_text(document: Mapping[str, Any]) -> str:
    """Return what the search gained, in words; empty for a run that measured no sequence."""
    sequence = document.get("sequence")
    if not sequence:
        return ""
    name = f"{sequence['name']}, {_rank(sequence['of'])}"
    if sequence["is_best"]:
        return f"none: the winner is {name}"
    gain = f"{format_ratio(sequence['gain'])} times the throughput of {name}"
    if not lookup(sequence, "gain", "interval"):
        return f"not confirmed: {gain}, in the search's own measurement"
    return gain if sequence["improved"] else f"none is shown: {gain}"


def sequence_aside(document: Mapping[str, Any]) -> str:
    """Return what the search gained as the end of a sentence on what the winner gains over the baseline."""
    sequence = document.get("sequence")
    if not sequence:
        return ""
    if sequence["is_best"]:
        return f", by {sequence['name']} of the catalog; the search found nothing faster"
    if not lookup(sequence, "gain", "interval"):
        return ""
    best = f"{sequence['name']}, the best sequence of the catalog"
    if not sequence["improved"]:
        return f"; no gain is shown over {best}"
    return f", and {format_ratio(sequence['gain'])} times faster than by {best}"


def _rank(number: int) -> str:
    if number == 1:
        return "the only sequence of the catalog that was measured"
    return f"the fastest of {number} sequences of the catalog that were measured"
