"""Names, sizes and renames of files and folders, which other people made or other processes change."""

import errno
import hashlib
import os
import re
from pathlib import Path

LONGEST = 60
"""Most characters of a text that its file name repeats."""

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")


def safe_file_name(text: str) -> str:
    """Return a file name for any text; it names a file in the folder it is joined to, and in no other.

    A plain text is its own file name. Others get a digest at the end, so that different texts have different names.
    """
    readable = _NOT_PLAIN.sub("_", text).strip("._")[:LONGEST]
    if readable and readable == text:
        return text
    # A name in a JSON file may have half a character (a surrogate), which is no UTF-8.
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{readable or 'unnamed'}-{digest[:8]}"


def expand_home(path: str | Path) -> Path:
    """Return a path with the home folder in place of ``~``; that of a user who does not exist stays as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder; links are not followed, files that vanish meanwhile do not count."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(Path(parent, name)).st_size
            except FileNotFoundError:  # noqa: PERF203 -- a search deletes artifacts while it runs
                continue
    return total


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
