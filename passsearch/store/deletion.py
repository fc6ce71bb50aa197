"""Deleting a folder that has a lock, so that no half of it is left under its name."""

import logging
import os
import shutil
from pathlib import Path

from filelock import FileLock

_log = logging.getLogger(__name__)

DELETED = ".passsearch-deleted-"
"""First part of the names of folders that are being deleted."""


def delete_locked(folder: Path) -> None:
    """Delete a folder whose lock file is ``.lock``.

    Raises:
        OSError: Another process has the folder (``filelock.Timeout``), or it cannot be renamed.
    """
    # A rename first: a deletion that is cut off leaves no half of a run under its name, which no command would take.
    # And a network drive keeps every file that a process has open, the lock too, until that process closes it.
    doomed = folder.with_name(f"{DELETED}{os.getpid()}-{folder.name}")
    with FileLock(folder / ".lock", timeout=0):
        folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # another process may be deleting it, too
    if doomed.exists():
        _log.warning("parts of `%s` could not be deleted", doomed)


def delete_leftovers(parent: Path) -> None:
    """Delete what deletions that were cut off have left in a folder."""
    for folder in parent.glob(f"{DELETED}[0-9]*-*"):
        shutil.rmtree(folder, ignore_errors=True)
