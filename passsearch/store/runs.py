"""The runs in a folder: what they found, how large they are, and which may be deleted."""

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passsearch.core import folder_bytes, timestamp
from passsearch.errors import EnvironmentFault, UserError
from passsearch.store.deletion import DELETED, delete_leftovers, delete_locked
from passsearch.store.run_folder import RESULT, read_result

DAY_S = 86_400.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StoredRun:
    """A run folder, which another process may be using.

    Attributes:
        folder: The folder.
        result: Its result; ``None`` if there is none yet or it cannot be read.
        bytes: Size of its files.
        measured_at: Time of its last measurement, in ISO 8601 and UTC.
        age_s: Seconds since then.
    """

    folder: Path
    result: Mapping[str, Any] | None
    bytes: int
    measured_at: str
    age_s: float


def stored_runs(parent: Path) -> Iterator[StoredRun]:
    """Yield the runs in a folder, the last measured first."""
    runs = [run for folder in run_folders(parent) if (run := _stored_run(folder)) is not None]
    yield from sorted(runs, key=lambda run: run.age_s)


def run_folders(parent: Path) -> list[Path]:
    """Return the run folders in a folder."""
    folders = [path for path in parent.iterdir() if path.is_dir() and not path.is_symlink()] if parent.is_dir() else []
    folders = [path for path in folders if not path.name.startswith(DELETED)]
    # Both files, because other programs may have a `run.json`.
    return [path for path in folders if (path / "run.json").exists() and (path / "log.jsonl").exists()]


def delete_runs(parent: Path, *, older_than_s: float) -> list[StoredRun]:
    """Delete the runs in a folder that measured nothing for so long, and return them.

    Runs that are in use or cannot be renamed stay.
    """
    delete_leftovers(parent)
    return [run for run in stored_runs(parent) if run.age_s >= older_than_s and delete_run(run.folder)]


def _stored_run(folder: Path) -> StoredRun | None:
    """Return a run; ``None`` if another process has deleted it meanwhile."""
    try:
        result = read_result(folder) if (folder / RESULT).exists() else None
    except (UserError, EnvironmentFault):
        result = None
    try:
        measured_at, size = (folder / "log.jsonl").stat().st_mtime, folder_bytes(folder)
    except FileNotFoundError:
        return None
    return StoredRun(folder, result, size, timestamp(measured_at), max(0.0, time.time() - measured_at))


def delete_run(folder: Path) -> bool:
    """Delete a run and return true; return false for one that is in use or cannot be renamed."""
    try:
        delete_locked(folder)
    except OSError as error:  # filelock's Timeout is one; a shared cache may have runs of other users
        _log.info("the run %s is not deleted: %s", folder, error)
        return False
    return True
