"""Where passsearch keeps what it installs."""

import os
from pathlib import Path

import platformdirs

DATA_VARIABLE = "PASSSEARCH_DATA_DIR"


def data_folder() -> Path:
    """The user's data folder, or ``$PASSSEARCH_DATA_DIR``; it need not exist yet."""
    return Path(os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("passsearch")).absolute()


def toolchains_folder() -> Path:
    """Parent of the installed environments."""
    return data_folder() / "toolchains"


def cache_folder() -> Path:
    """The user's cache folder; it need not exist yet."""
    return Path(platformdirs.user_cache_dir("passsearch")).absolute()
