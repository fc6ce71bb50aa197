"""Folders in which passsearch keeps toolchains and cached files."""

import contextlib
import os
from pathlib import Path

import platformdirs

DATA_VARIABLE = "PASSSEARCH_DATA_DIR"
PRIVATE = 0o700
"""Permissions of a folder that only its owner may read, write and enter."""


def data_folder() -> Path:
    """Return ``$PASSSEARCH_DATA_DIR``, or the user's data folder; it may not exist yet."""
    return Path(os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("passsearch")).absolute()


def toolchains_folder() -> Path:
    """Return the parent folder of the installed environments."""
    return data_folder() / "toolchains"


def cache_folder() -> Path:
    """Return the user's cache folder, which nobody else may enter.

    It holds facts that decide without a new measurement, and artifacts that are loaded as machine code.
    """
    folder = Path(platformdirs.user_cache_dir("passsearch")).absolute()
    # Where it cannot be made or is not the user's own, whatever writes to it says so.
    with contextlib.suppress(OSError):
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(PRIVATE)
    return folder
