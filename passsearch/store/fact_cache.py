"""The fact cache: a log, in the user's cache folder, that all runs on one network, compiler and device share."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.store.locks import acquire
from passsearch.store.log import Log

_log = logging.getLogger(__name__)


@contextmanager
def open_fact_cache(path: Path) -> Iterator[Log]:
    """Open the fact cache and make its file if there is none.

    Only one process may write to it at a time. A process that finds it locked gets a log that is not writable: it reads
    the facts that are there, and its own new facts are stored in its run folder only.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(str(path.with_suffix(".lock")))
    try:
        # No waiting: the other run may hold the lock for hours, and this one works without it.
        acquire(lock)
    except Timeout:
        _log.info("fact cache %s is in use by another run; it is read only, new facts stay in the run folder", path)
        with Log(path, writable=False) as log:
            yield log
        return
    try:
        with Log(path) as log:
            _log.info("fact cache %s opened with %d facts", path, len(log.times))
            yield log
    finally:
        lock.release()
