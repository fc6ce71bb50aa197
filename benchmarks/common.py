"""Date, machine and compiler of a benchmark, and the JSON files that state them."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from passsearch.evaluate import Session, open_session
from passsearch.frontends import resolve
from passsearch.search import toolchain_document
from passsearch.toolchain import cache_folder


def network_session(model: str, toolchain: str | None = None) -> Session:
    """Return the session of a network without an evaluator, with the toolchain and target that ``tune`` chooses.

    Args:
        model: For example ``zoo:resnet18``.
        toolchain: Name of a toolchain; the first there is by default.
    """
    return open_session(resolve(model, folder=cache_folder() / "models"), toolchain=toolchain, target=None)


def provenance(session: Session) -> dict[str, Any]:
    """Return date, machine, target and compiler."""
    machine = {"device": session.sensors.device, "target": session.target, "toolchain": toolchain_document(session)}
    return {"date": date.today().isoformat(), **machine}


def write_part(page: Path, script: str, text: str) -> None:
    """Write what a benchmark says into a page, between the two marks that name the benchmark."""
    begin, end = (f"<!-- {mark}: benchmarks/{script} -->" for mark in ("begin", "end"))
    before, _, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def read_rows(file: Path, section: str) -> dict[str, Any]:
    """Return the rows of a results file, by network or space; empty if there is no file yet."""
    rows: dict[str, Any] = json.loads(file.read_text())[section] if file.exists() else {}
    return rows


def write_row(file: Path, section: str, *, name: str, row: dict[str, Any], session: Session) -> None:
    """Add a row, with its provenance, to a results file, or replace the row of this name; all other rows stay."""
    rows = {**read_rows(file, section), name: {**provenance(session), **row}}
    file.write_text(json.dumps({section: rows}, indent=1) + "\n")
