"""Folders in which passsearch keeps toolchains and cached files."""

import os
from pathlib import Path

import platformdirs

DATA_VARIABLE = "PASSSEARCH_DATA_DIR"


def data_folder() -> Path:
    """Return ``$PASSSEARCH_DATA_DIR``, or the user's data folder; it may not exist yet."""
    return Path(os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("passsearch")).absolute()


def toolchains_folder() -> Path:
    """Return the parent folder of the installed environments."""
    return data_folder() / "toolchains"


def cache_folder() -> Path:
    """Return the user's cache folder; it may not exist yet."""
    return Path(platformdirs.user_cache_dir("passsearch")).absolute()
