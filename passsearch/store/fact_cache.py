"""The fact cache: a log, in the user's cache folder, that all runs on one network, compiler and device share."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from passsearch.core import NOTICE_LOG
from passsearch.store.locks import acquire
from passsearch.store.log import Log

_log = logging.getLogger(__name__)
_notices = logging.getLogger(NOTICE_LOG)


@contextmanager
def open_fact_cache(path: Path) -> Iterator[Log]:
    """Open the fact cache and make its file if there is none.

    Only one process may write to it at a time. A process that finds it locked gets a log that is not writable: it reads
    the facts that are there, and its own new facts are stored in its run folder only. So does one that cannot write it.
    """
    with ExitStack() as stack:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(str(path.with_suffix(".lock")))
            # No waiting: the other run may hold the lock for hours, and this one works without it.
            acquire(lock)
            stack.callback(lock.release)
            log = stack.enter_context(Log(path))
            _log.info("fact cache %s opened with %d facts", path, len(log.times))
        except Timeout:
            _log.info("fact cache %s is in use by another run; it is read only, new facts stay in the run folder", path)
            log = stack.enter_context(Log(path, writable=False))
        except OSError as error:
            _notices.warning("the fact cache %s cannot be written (%s); new facts stay in the run folder", path, error)
            log = stack.enter_context(Log(path, writable=False))
        yield log
