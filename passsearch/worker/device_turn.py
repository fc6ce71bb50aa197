"""The turn on a device, for a process that builds before it runs; ``WorkerPool.device_turn`` holds the same lock."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

DEVICE_WAIT_S = 120.0
"""Longest time that kernels alone wait for the device, on which another search may measure for a minute first."""

LOCK_POLL_S = 0.05
"""Time between two attempts to take the lock of a device, as long as that of ``FileLock``."""


@contextmanager
def device_turn(lock: str | None) -> Iterator[None]:
    """Hold the lock that ``WorkerPool.device_turn`` holds, and wait for it for ``DEVICE_WAIT_S``; none for a CPU.

    Raises:
        TimeoutError: Another process holds it for too long. That is an accident of the machine, like every ``OSError``.
    """
    if lock is None:
        yield
        return
    Path(lock).parent.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + DEVICE_WAIT_S
    with Path(lock).open("w") as file:
        # As `FileLock` does: a process that sleeps in the lock would be served before all that ask now and then.
        while not _locks(file):
            if time.monotonic() > end:
                raise TimeoutError(f"another process has used the device for {DEVICE_WAIT_S:.0f} s")
            time.sleep(LOCK_POLL_S)
        yield


def _locks(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
