"""Progress on standard error: a bar in a terminal and in a notebook, otherwise one line per step."""

import importlib.util
import logging
import math
import sys
import time
from collections.abc import Iterable
from threading import Timer
from types import TracebackType
from typing import TYPE_CHECKING

from passsearch.core import Step, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

_log = logging.getLogger(__name__)


def in_ipython() -> bool:
    """Return whether IPython or a notebook runs this process and can show a bar."""
    # IPython is imported long before its user calls a function of ours.
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module else None
    return shell is not None and (sys.stderr.isatty() or _is_notebook(shell))


def _is_notebook(shell: object) -> bool:
    # Without ipywidgets, rich prints a warning and a copy of the bar for every change of it.
    return type(shell).__name__ == "ZMQInteractiveShell" and importlib.util.find_spec("ipywidgets") is not None


class ProgressBar:
    """A progress callback: it is called with the step, the number of finished candidates and their total."""

    def __init__(self, console: "Console | None" = None, *, delay_s: float = 0.0) -> None:
        """Prepare a bar, or lines where standard error is a file: a bar there would be thousands of lines.

        Args:
            console: The console of the bar; by default the terminal or the notebook, where there is one.
            delay_s: Time after which the display appears; a call that ends earlier shows nothing.
        """
        self._clock = _Clock()
        self._timer = Timer(delay_s, self._appear) if delay_s else None
        self._is_visible = self._timer is None
        is_shown = console is not None or sys.stderr.isatty() or in_ipython()
        self._bar = _bar(self._clock, console) if is_shown else None
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
            self._clock.begin(text)
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


class _Clock:
    """The times of a run, which pass between two calls of the callback too."""

    def __init__(self) -> None:
        self._step: str = ""
        self._updated_s = self._began_s = time.monotonic()

    def begin(self, step: str) -> None:
        """Take the times of the current step."""
        now = time.monotonic()
        self._began_s = self._began_s if step == self._step else now
        self._step, self._updated_s = step, now

    @property
    def times(self) -> str:
        """The time of this step, and of the run with its share of the time limit and what is left, in words."""
        now = time.monotonic()
        step_s = f"{_seconds(now - self._began_s)} in this step"
        if not isinstance(self._step, Step) or math.isnan(self._step.elapsed_s):
            return step_s
        run_s, limit_s = self._step.elapsed_s + now - self._updated_s, self._step.limit_s
        if math.isinf(limit_s):
            return f"{step_s}, {_seconds(run_s)} in all"
        share = f"{_seconds(run_s)} of {_seconds(limit_s)} ({100 * run_s / max(limit_s, 1):.0f} %)"
        return f"{step_s}, {share}, {_seconds(max(limit_s - run_s, 0))} left"

    @property
    def detail(self) -> str:
        """What the search knows so far, in words."""
        return printable(self._step.detail) if isinstance(self._step, Step) else ""


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _bar(clock: _Clock, console: "Console | None") -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.text import Text

    class Lines(Progress):
        """The bar, and below it the times and what the search knows so far."""

        def get_renderables(self) -> "Iterable[RenderableType]":
            yield from super().get_renderables()
            for line in filter(None, (clock.times, clock.detail)):
                yield Text(f"  {line}", style="dim", no_wrap=True, overflow="ellipsis")

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=20), MofNCompleteColumn())
    # Transient: at the end the bar goes, and only the result stays on the terminal.
    return Lines(*columns, console=console or Console(stderr=True), transient=True)
