"""Temporary folders that do not outlive their process: what a killed process left is deleted by the next one."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
from pathlib import Path
from tempfile import gettempdir, mkdtemp

PREFIX = "passsearch.scratch-"
MARK = "PASSSEARCH_SCRATCH"
"""Environment variable with the folder that a process and all that it starts work for."""

_log = logging.getLogger(__name__)


class ScratchFolder:
    """An empty folder among the temporary files, which only this user can open.

    It is locked while this process lives. Making one deletes the folders of processes that were killed.

    Attributes:
        path: The folder.
    """

    def __init__(self) -> None:
        """Make the folder."""
        delete_abandoned(Path(gettempdir()))
        self.path, self._lock = _make_locked()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes that work for the folder, and delete it."""
        end_processes(self.path)
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def is_temporary(path: Path) -> bool:
    """Return True for a path in a scratch folder, which is deleted when its process ends."""
    return any(part.startswith(PREFIX) for part in path.parts)


def delete_abandoned(parent: Path) -> None:
    """Delete the folders of processes that ended without doing so, and end what still works for them."""
    for folder in parent.glob(f"{PREFIX}*"):
        # Another process may delete the same folder, and others' folders cannot be opened.
        with contextlib.suppress(OSError):
            lock = _lock(folder)
            try:
                _log.info("deleting %s, which a process that was killed left", folder)
                end_processes(folder)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def end_processes(folder: Path) -> None:
    """Kill all processes that work for a scratch folder, also those that left the session of their worker."""
    mark = f"{MARK}={folder}".encode()
    for process in Path("/proc").iterdir():
        # Processes of others, and those that end meanwhile, cannot be read.
        with contextlib.suppress(OSError):
            if process.name.isdigit() and mark in (process / "environ").read_bytes().split(b"\0"):
                _log.info("killing process %s, which its worker left", process.name)
                os.kill(int(process.name), signal.SIGKILL)


def _make_locked() -> tuple[Path, int | None]:
    """Return a folder with its lock; ``None`` where the file system has no locks, so nobody deletes it either."""
    while True:
        folder = Path(mkdtemp(prefix=PREFIX))
        try:
            lock = _lock(folder)
        except (BlockingIOError, FileNotFoundError):
            continue  # another process is deleting it, or has, because it was not locked yet
        except OSError:
            return folder, None
        if folder.exists():
            return folder, lock
        os.close(lock)


def _lock(folder: Path) -> int:
    """Return a descriptor that holds the lock of a folder; raise ``OSError`` if another process has it."""
    # A link is not followed: everybody may write to the folder of temporary files.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{folder} belongs to another user")
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
