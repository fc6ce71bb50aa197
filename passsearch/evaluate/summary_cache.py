"""The dataflow graphs of networks that were imported before, so that an analysis needs no compiler."""

import contextlib
import hashlib
import json
import logging
import os
from pathlib import Path

from passsearch.core import ModuleSummary
from passsearch.errors import EnvironmentFault
from passsearch.evaluate.model_import import import_digest
from passsearch.evaluate.session import Session
from passsearch.frontends import cache_file_name, save_file
from passsearch.toolchain import cache_folder

GRAPH_VERSION = 1
"""Grows when the form of a stored graph changes."""

_log = logging.getLogger(__name__)


def recall_summary(session: Session) -> ModuleSummary | None:
    """Return the dataflow graph of the session's network, ``None`` if this compiler has not imported it."""
    path = _folder() / _file_name(session)
    try:
        content = path.read_text()
        checksum, _, summary = content.partition("\n")
        if checksum != _checksum(summary):
            _log.warning("`%s` is damaged; the network is imported again.", path)
            path.unlink(missing_ok=True)
            return None
    except (OSError, UnicodeDecodeError):
        return None
    # Files that were used longest ago are removed first; a read-only cache is not limited.
    with contextlib.suppress(OSError):
        os.utime(path)
    _log.info("the graph of %s is that of an earlier import", session.model.source)
    return ModuleSummary.from_json(json.loads(summary))


def keep_summary(session: Session, summary: ModuleSummary) -> None:
    """Write the dataflow graph of the session's network for later analyses."""
    text = json.dumps(summary.to_json())
    try:
        save_file(_folder(), _file_name(session), write=lambda path: path.write_text(f"{_checksum(text)}\n{text}"))
    except EnvironmentFault as error:
        # The analysis itself needs no file.
        _log.warning("the graph of %s is not kept: %s", session.model.source, error)


def _folder() -> Path:
    return cache_folder() / "graphs"


def _file_name(session: Session) -> str:
    # The name is a digest of the network's content and of everything that decides how it is imported.
    return cache_file_name(session.model.name, import_digest(session), suffix=f"-{GRAPH_VERSION}.json")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
