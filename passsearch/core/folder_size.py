"""The size of folders that other processes may be changing."""

import os
from pathlib import Path


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
