"""Where and when a benchmark ran, and the JSON files that say so."""

import json
from datetime import date
from pathlib import Path
from typing import Any

from passsearch.evaluate import Session, open_session
from passsearch.frontends import resolve
from passsearch.search.document import toolchain_document
from passsearch.toolchain import cache_folder


def settle(model: str, toolchain: str | None = None) -> Session:
    """A toolchain (or the default one) and this machine's target for a network, as ``tune`` chooses them."""
    return open_session(resolve(model, folder=cache_folder() / "models"), toolchain=toolchain, target=None)


def provenance(chosen: Session) -> dict[str, Any]:
    """Date, machine, target and compiler."""
    machine = {"device": chosen.sensors.device, "target": chosen.target, "toolchain": toolchain_document(chosen)}
    return {"date": date.today().isoformat(), **machine}


def read_rows(file: Path, section: str) -> dict[str, Any]:
    """What a results file has, by network or space; nothing where there is no file yet."""
    rows: dict[str, Any] = json.loads(file.read_text())[section] if file.exists() else {}
    return rows


def write_row(file: Path, section: str, *, name: str, row: dict[str, Any], chosen: Session) -> None:
    """Put one more there, or the same anew, with where and when; all others stay."""
    rows = {**read_rows(file, section), name: {**provenance(chosen), **row}}
    file.write_text(json.dumps({section: rows}, indent=1) + "\n")
