"""Cells of the tables, and the paper's own numbers."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

PAPER = json.loads((Path(__file__).parent / "paper.json").read_text())

Row: TypeAlias = list[str]
Table: TypeAlias = tuple[str, Row, list[Row]]
"""Name, column heads and rows."""

SOURCES = {
    "baseline": "TVM's level {name}",
    "sequence": "catalog, `{name}`",
    "explored state": "explored state",
    "sampler": "sampler {name}",
}
"""Words for who proposed a sequence, by the kind in ``best.source``."""


def claim(kind: str, name: str) -> float | None:
    """Return the paper's claim for a network; ``None`` if it makes none."""
    value: float | None = PAPER["claims"][kind].get(name)
    return value


def share(value: float | None) -> str:
    """Return a share in percent: ``45 %``."""
    return "–" if value is None else f"{100 * value:.0f} %"


def span(ratio: Mapping[str, Any] | None) -> str:
    """Return a ratio with its interval: ``1.020 [1.000, 1.040]``."""
    if not ratio:
        return "–"
    low, high = ratio.get("interval") or (None, None)
    return f"{ratio['ratio']:.3f}" + ("" if low is None or high is None else f" [{low:.3f}, {high:.3f}]")


def unavailable(document: Mapping[str, Any]) -> str:
    """Return the reason why there is no number."""
    if "failure" in document:
        return f"{document['failure']['kind']}: {document['failure']['reason']}"
    return str(document.get("unavailable", "not measured"))


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (heads, ["---"] * len(heads), *rows))


def source(document: Mapping[str, Any]) -> str:
    """Return who proposed the best sequence. Results from before ``best.source`` have the names of sequences only."""
    best = document["best"]
    found = best.get("source") or {"kind": "sequence" if best["name"] else "sampler", "name": best["name"]}
    return SOURCES[found["kind"]].format(name=found["name"]).strip()
