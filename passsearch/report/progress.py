"""Progress of a search on standard error: a bar on a terminal, otherwise one line per phase."""

import logging
import sys
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING

from passsearch.core import printable

if TYPE_CHECKING:
    from rich.progress import Progress

_log = logging.getLogger(__name__)


class ProgressBar:
    """A progress callback: it is called with the phase, the number of finished candidates and their total."""

    def __init__(self, *, delay_s: float = 0.0) -> None:
        """Prepare the display.

        Args:
            delay_s: Time after which it appears; a call that ends earlier shows nothing.
        """
        self._timer = Timer(delay_s, self._appear) if delay_s else None
        self._is_visible = self._timer is None
        # A bar in a file, such as the log of a batch job, would be thousands of lines.
        self._bar = _bar() if sys.stderr.isatty() else None
        self._task = self._bar.add_task("starting", total=None) if self._bar else None
        self._phase = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        """Show the state of the call; a total of 0 marks a note, which stays on the terminal."""
        if total == 0:
            self._show_note(text)
            return
        if text != self._phase:
            _log.info("phase: %s (%d of %d)", text, done, total)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=_plain(text), completed=done, total=max(total, done, 1))
        elif text != self._phase and self._is_visible:
            sys.stderr.write(f"{printable(text)}\n")
        self._phase = text

    def _appear(self) -> None:
        self._is_visible = True
        if self._bar is not None:
            self._bar.start()
        elif self._phase:
            sys.stderr.write(f"{printable(self._phase)}\n")

    def _show_note(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(_plain(text))
        else:
            sys.stderr.write(f"{printable(text)}\n")

    def __enter__(self) -> "ProgressBar":
        if self._timer is None:
            self._appear()
        else:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()  # it may be showing the bar just now
        if self._bar is not None:
            self._bar.stop()


def _plain(text: str) -> str:
    """Return a text that rich prints as it is: brackets are no markup, control characters are written out."""
    from rich.markup import escape

    return escape(printable(text))


def _bar() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
    )

    # Not TimeElapsedColumn: it stops when the last candidate is searched, and the confirmation comes after that.
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.elapsed:.0f} s"),
    )
    # Transient: at the end the bar goes, and only the result stays on the terminal.
    return Progress(*columns, console=Console(stderr=True), transient=True)
