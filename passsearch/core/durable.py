"""Renames that survive a power cut."""

import errno
import os
from pathlib import Path

PARTIAL = ".partial-"
"""First part of the names of folders that are written to before they are renamed."""


def replace_durably(partial: Path, path: Path) -> None:
    """Rename a complete file or folder; after a power cut the name has either the old content or all of the new.

    Without the first ``fsync`` the name can reach the disk before the content, and the file is empty afterwards;
    without the second the name itself can be lost.
    """
    for file in partial.rglob("*"):  # none, unless it is a folder
        _sync(file)
    _sync(partial)
    partial.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network filesystems have no such call for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)
