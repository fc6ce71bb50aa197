"""Folders of environments that are complete or do not exist."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_log = logging.getLogger(__name__)


def delete_scripts(folder: Path) -> None:
    """Delete the console scripts of an environment, and keep its interpreters."""
    # The first line of a console script names the folder before the rename, so the scripts would not start.
    for script in folder.iterdir():
        if not script.name.startswith("python"):
            script.unlink()


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Yield the path of a folder for an unfinished environment, and delete that folder afterwards."""
    partial = folder.with_name(f"{folder.name}.partial-{os.getpid()}")
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def replace_folder(folder: Path, new: Path) -> None:
    """Give a complete environment its final name, in place of an older one."""
    # Two renames: at every moment the folder is complete or does not exist, even if this process is killed.
    old = folder.with_name(f"{folder.name}.partial-{os.getpid()}-old")
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def delete_partial_folders(folder: Path) -> None:
    """Delete the folders of installations that were killed."""
    # The lock is held, so no other installation of this dialect should run here; the process id makes sure of it.
    for leftover in folder.parent.glob(f"{folder.name}.partial-*"):
        pid = leftover.name.removeprefix(f"{folder.name}.partial-").partition("-")[0]
        if pid.isdigit() and not _is_running(int(pid)):
            _log.debug("Deleting `%s`: process %s no longer runs.", leftover, pid)
            shutil.rmtree(leftover, ignore_errors=True)


def _is_running(pid: int) -> bool:
    """Return true if another process has this id."""
    if pid == os.getpid():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
