"""Signals that end a process."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

ENDING_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals by which schedulers and closed terminals end a process; a command ends as it does after Ctrl-C."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat the signals that end a process like Ctrl-C: the result is written and workers and states are removed."""
    # Only the main thread may set handlers; a signal that is ignored (`nohup`) stays so.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number, handler in earlier.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
