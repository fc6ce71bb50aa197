"""Processes: their environment, and the signals that end them."""

import ctypes
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NO_TELEMETRY = {"ORT_DISABLE_TELEMETRY": "1", "NNCF_CI": "1"}
"""Variables that keep frameworks from reporting what they run: ONNX Runtime sends names and digests of networks to its
maker from version 1.29 on (microsoft/onnxruntime #27379), and keeps files for it; NNCF sends how it is used."""

OWN_VARIABLES = frozenset({"PYTHONPATH", "PYTHONHOME"})
"""Variables that describe this process's interpreter; a child would import from the wrong environment."""


def child_environment() -> dict[str, str]:
    """Return this process's environment variables, without those that describe its own interpreter.

    Frameworks report nothing, unless the user's own variables let them.
    """
    environment = {name: value for name, value in {**NO_TELEMETRY, **os.environ}.items() if name not in OWN_VARIABLES}
    return {**environment, "PYTHONDONTWRITEBYTECODE": "1"}


_PR_SET_PDEATHSIG = 1
"""Number of the option in Linux's ``prctl.h``."""


def die_with_parent() -> None:
    """Ask Linux to kill this process as soon as the thread that started it ends."""
    # A parent that is killed cannot clean up, and a process that runs on would disturb every later measurement.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


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
