"""What all runs on one network, compiler and device have found out, in the user's cache folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.store.log import Log


@contextmanager
def open_fact_cache(path: Path) -> Iterator[Log]:
    """The log behind a run's own; it is made if need be.

    One process writes it at a time. Another one that comes meanwhile reads what was there, and keeps what it finds out
    in its run folder only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(path.with_suffix(".lock")))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with Log(path, writable=False) as log:
            yield log
        return
    try:
        with Log(path) as log:
            yield log
    finally:
        lock.release()
