"""File locks, and the check that the file system holds them."""

import errno
import os
import subprocess
import sys
from pathlib import Path

from filelock import FileLock

from passsearch.errors import UserError

NETWORK_TYPES = frozenset({"9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "nfs", "nfs4", "smb3"})
"""Types of file systems, as Linux names them, whose locks depend on how they are mounted."""

PROBE = """
import fcntl, sys
try:
    fcntl.flock(open(sys.argv[1], "a"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(1)
"""
"""Ends with status 1 where another process holds the lock."""


def acquire(lock: FileLock) -> None:
    """Acquire a lock without waiting.

    Raises:
        Timeout: Another process has it.
        UserError: The file system has no locks, or two processes get the same one.
    """
    try:
        lock.acquire(timeout=0)
    except NotImplementedError as error:
        raise _unusable(lock, str(error)) from error
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP):
            raise
        raise _unusable(lock, str(error)) from error
    path = Path(lock.lock_file)
    if file_system(path) in NETWORK_TYPES and not is_held(path):
        lock.release()
        raise _unusable(lock, "two processes get one lock")


def file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """Return the type of the file system that a path is on; empty if it cannot be found out."""
    real, types = os.path.realpath(path), dict[str, str]()
    for line in mounts.read_text(errors="replace").splitlines() if mounts.exists() else ():
        _, place, kind, *_ = line.split()
        types[place.encode().decode("unicode_escape").rstrip("/")] = kind
    return next((types[str(each).rstrip("/")] for each in Path(real).parents if str(each).rstrip("/") in types), "")


def is_held(path: Path) -> bool:
    """Return whether another process is kept from taking the lock of a file, which this process holds."""
    # Another process, because locks of NFS belong to processes: this one would get its own lock a second time.
    return subprocess.run([sys.executable, "-IS", "-c", PROBE, str(path)], check=False).returncode == 1


def _unusable(lock: FileLock, reason: str) -> UserError:
    return UserError(
        f"`{lock.lock_file}` cannot be locked ({reason}), so two runs could write to its folder at once; choose a "
        "folder on another disk (--out for runs, XDG_CACHE_HOME for the cache)."
    )
