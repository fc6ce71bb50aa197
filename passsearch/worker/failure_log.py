"""The traceback of a request that failed, in the log of workers, and the line of the user's own pass in it."""

import contextlib
import faulthandler
import json
import signal
import sys
import sysconfig
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

MOST_REQUEST = 2000
"""Most characters of a request in the log; a request may carry tensors' types by the hundred."""

MOST_TRACEBACK = 64 << 10
"""Most characters of one traceback in the log, taken from its end; a compiler may print whole modules in a message."""

TITLE = "--- failed request: "

STACK_SIGNAL = signal.SIGUSR1
"""Signal at which a worker prints where it is, before it is killed because it does not answer."""

_PACKAGE = Path(__file__).parents[1]


def log_failure(error: BaseException, request: Mapping[str, Any]) -> None:
    """Print a request that failed and its whole traceback to standard error, which is the log of workers."""
    text = "".join(traceback.format_exception(error))
    asked = json.dumps({key: value for key, value in request.items() if key != "request"}, default=str)
    # On a full disk the answer still has the reason, by which the failure is known as the machine's.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{TITLE}{asked[:MOST_REQUEST]}\n{text[-MOST_TRACEBACK:]}\n")
        sys.stderr.flush()


def log_deaths() -> None:
    """Print the stack of a process that a signal ends, and that of one that is asked by ``STACK_SIGNAL``."""
    faulthandler.enable()
    faulthandler.register(STACK_SIGNAL, chain=False)


def last_failure(log: Path) -> str:
    """Return what the last failed request left in a log of workers: its traceback, or the end of the log."""
    try:
        text = log.read_text(errors="replace")
    except FileNotFoundError:
        return ""
    _, title, failure = text.rpartition(TITLE)
    return (title + failure)[-MOST_TRACEBACK:]


def own_line(error: BaseException) -> str:
    """Return ``file.py, line N`` for the innermost line of the user's own code in a traceback, or an empty text."""
    frames = [frame for part in _chain(error) for frame in traceback.extract_tb(part.__traceback__)]
    own = [frame for frame in frames if _is_own(frame.filename)]
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes; the last one was raised first and has the innermost frames."""
    part: BaseException | None = error
    while part is not None:
        yield part
        part = part.__cause__ or (None if part.__suppress_context__ else part.__context__)


def _is_own(name: str) -> bool:
    """Return True for a file that is not of Python, a package of its environment, the compiler or passsearch."""
    file = Path(name)
    # Compiled code names its source by a relative path.
    if not file.is_absolute() or file.is_relative_to(_PACKAGE):
        return False
    # Debian has its packages beside Python's own paths, and a compiler may come from anywhere.
    if "dist-packages" in file.parts or any(file.is_relative_to(path) for path in _compiler_paths()):
        return False
    paths = sysconfig.get_paths()
    return not any(file.is_relative_to(paths[part]) for part in ("stdlib", "platstdlib", "purelib", "platlib"))


def _compiler_paths() -> list[str]:
    return [path for name in ("tvm", "tvm_ffi") for path in getattr(sys.modules.get(name), "__path__", ())]
