"""Folders in which passsearch keeps toolchains and cached files."""

import atexit
import contextlib
import logging
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

from passsearch.core import NOTICE_LOG, safe_file_name
from passsearch.errors import EnvironmentFault, UserError

DATA_VARIABLE = "PASSSEARCH_DATA_DIR"
CACHE_VARIABLE = "PASSSEARCH_CACHE_GB"
DEFAULT_CACHE_GB = 20.0
"""Size that the cache may have unless the user says otherwise: some hundred runs on small networks."""

RUN_VARIABLE = "PASSSEARCH_RUN_GB"

PRIVATE = 0o700
"""Permissions of a folder that only its owner may read, write and enter."""

LEAST_ROOM_BYTES = 16 << 20
"""Free space that a cache folder needs to be one."""

_notices = logging.getLogger(NOTICE_LOG)


def data_folder() -> Path:
    """Return ``$PASSSEARCH_DATA_DIR``, or the user's data folder; it may not exist yet."""
    return Path(os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("passsearch")).absolute()


def toolchains_folder() -> Path:
    """Return the parent folder of the installed environments."""
    return data_folder() / "toolchains"


def cache_folder() -> Path:
    """Return the user's cache folder, or a temporary one for this process where the user's cannot be written.

    The user is told in one line. What is kept for later commands is kept in ``user_cache_folder``.
    """
    return _usable(user_cache_folder())


@cache
def _usable(folder: Path) -> Path:
    problem = _problem(folder)
    if not problem:
        return folder
    temporary = Path(tempfile.mkdtemp(prefix="passsearch-cache-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    _notices.warning(
        "the cache folder `%s` cannot be used (%s), so this command works without a cache; another one: "
        "XDG_CACHE_HOME=DIR",
        folder,
        problem,
    )
    return temporary


def _problem(folder: Path) -> str:
    """Return why a folder cannot be written, empty if it can."""
    try:
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)  # its reason, where it cannot be made
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
        return "" if shutil.disk_usage(folder).free >= LEAST_ROOM_BYTES else "its disk is full"
    except OSError as error:
        return error.strerror or str(error)


def cache_problem() -> str:
    """Return why the user's cache folder cannot be written; empty if it can."""
    return _problem(user_cache_folder())


def user_cache_folder() -> Path:
    """Return the user's cache folder, which nobody else may enter; it may be read-only.

    It holds facts that decide without a new measurement, and artifacts that are loaded as machine code.
    """
    folder = Path(platformdirs.user_cache_dir("passsearch")).absolute()
    # Where it cannot be made or is not the user's own, whatever writes to it says so.
    with contextlib.suppress(OSError):
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if folder.stat().st_mode & 0o077:
            folder.chmod(PRIVATE)
    return folder


def lock_file(name: str) -> Path:
    """Return the file of a lock, the same for all processes of this user on this machine; the file is made.

    Args:
        name: Any text; a file of another person may name the device that it is of.

    Raises:
        EnvironmentFault: Neither the cache folder nor the folder of temporary files can hold it.
    """
    temporary = Path(tempfile.gettempdir()) / f"passsearch-locks-{os.getuid()}"
    for folder in (user_cache_folder() / "locks", temporary):
        with contextlib.suppress(OSError):
            folder.mkdir(mode=PRIVATE, exist_ok=True)
            # Another user's folder may hold a link to a file that a lock would empty.
            if folder.lstat().st_uid == os.getuid():
                (folder / safe_file_name(name)).touch()
                return folder / safe_file_name(name)
    raise EnvironmentFault(f"No folder can hold the lock `{name}`; make `{temporary}` one that only you may write.")


def cache_limit_bytes() -> float:
    """Return ``$PASSSEARCH_CACHE_GB`` in bytes, or the default limit of the cache folder.

    Raises:
        UserError: The variable is no size.
    """
    size_bytes = _bytes_from_environment(CACHE_VARIABLE)
    return DEFAULT_CACHE_GB * 1e9 if size_bytes is None else size_bytes


def run_limit_bytes() -> float | None:
    """Return ``$PASSSEARCH_RUN_GB`` in bytes, the limit of the artifacts and the log of one run; ``None`` if not set.

    Raises:
        UserError: The variable is no size.
    """
    return _bytes_from_environment(RUN_VARIABLE)


def _bytes_from_environment(variable: str) -> float | None:
    text = os.environ.get(variable)
    if not text:
        return None
    try:
        size = float(text)
    except ValueError:
        size = -1.0
    if not size >= 0:  # not a number is no size either
        raise UserError(f"{variable} is a size in GB from 0 on; got `{text}`. For example: {variable}=20")
    return size * 1e9
