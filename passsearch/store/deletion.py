"""Deleting a folder that has a lock, whole or not at all."""

import os
import shutil
from pathlib import Path

from filelock import FileLock

DELETED = ".deleted-"
"""Begin of the names of folders that are being deleted."""


def delete_locked(folder: Path) -> None:
    """Delete a folder whose lock file is ``.lock``.

    Raises:
        OSError: Another process has the folder (``filelock.Timeout``), or it cannot be deleted.
    """
    # A rename first: a deletion that is cut off leaves no half of a run behind, which no command would take. And a
    # network drive keeps every file that a process has open, the lock too, until that process closes it.
    doomed = folder.with_name(f"{DELETED}{os.getpid()}-{folder.name}")
    with FileLock(folder / ".lock", timeout=0):
        folder.rename(doomed)
    shutil.rmtree(doomed)


def delete_leftovers(parent: Path) -> None:
    """Delete what deletions that were cut off have left in a folder."""
    for folder in parent.glob(f"{DELETED}*"):
        # Another process may be deleting it just now.
        shutil.rmtree(folder, ignore_errors=True)
