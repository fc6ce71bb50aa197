"""Tells an accident of the machine from a failure of a candidate."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

import psutil

LEAST_FREE_BYTES = 16 << 20
"""Disk space and memory below which a failure says nothing about a candidate."""

SYSTEM_ERRORS = (
    "No space left on device",
    "Disk quota exceeded",
    "Read-only file system",
    "Cannot allocate memory",
    "Too many open files",
    "File too large",
)
"""Texts of the system's errors that say nothing about a candidate."""


def machine_problem(folders: Iterable[Path], *, reason: str = "") -> str:
    """Return what is wrong with the machine, empty if it is well.

    Args:
        folders: Folders that a worker writes to.
        reason: Reason of the failure, which may name an error of the system.
    """
    problems = (problem for folder in folders if (problem := _folder_problem(folder)))
    error = next((text for text in SYSTEM_ERRORS if text.lower() in reason.lower()), "")
    return next(problems, "") or error or _memory_problem()


def _folder_problem(folder: Path) -> str:
    # A cache folder may not exist yet; the disk that it would be on counts then.
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    if not os.access(existing, os.W_OK):
        return f"`{existing}` cannot be written"
    if shutil.disk_usage(existing).free < LEAST_FREE_BYTES:
        return f"the disk of `{existing}` is full"
    return ""


def _memory_problem() -> str:
    return "memory is short" if psutil.virtual_memory().available < LEAST_FREE_BYTES else ""
