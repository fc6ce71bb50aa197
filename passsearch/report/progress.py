"""Progress on standard error: a bar in a terminal and in a notebook, otherwise one line per step."""

import logging
import math
import sys
import threading
import time
from collections.abc import Iterable
from html import escape
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from passsearch.core import Step, printable

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

_log = logging.getLogger(__name__)


def in_ipython() -> bool:
    """Return whether IPython runs this process on a terminal or in a notebook."""
    return _in_notebook() or (_shell() is not None and sys.stderr.isatty())


def _in_notebook() -> bool:
    return type(_shell()).__name__ == "ZMQInteractiveShell"


def _shell() -> Any:
    # IPython is imported long before its user calls a function of ours.
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None


class ProgressBar:
    """A progress callback: it is called with the step, the number of finished candidates and their total."""

    def __init__(self, console: "Console | None" = None, *, delay_s: float = 0.0) -> None:
        """Prepare a bar, or lines where standard error is a file: a bar there would be thousands of lines.

        Args:
            console: The console of the bar; by default the terminal or the notebook, where there is one.
            delay_s: Time after which the display appears; a call that ends earlier shows nothing.
        """
        self._clock = _Clock()
        self._timer = threading.Timer(delay_s, self._appear) if delay_s else None
        self._is_visible = self._timer is None
        self._page = _Page(self._clock) if console is None and _in_notebook() else None
        is_terminal = console is not None or (self._page is None and sys.stderr.isatty())
        self._bar = _bar(self._clock, console) if is_terminal else None
        self._task = self._bar.add_task("starting", total=None) if self._bar else None
        self._phase = ""

    def __call__(self, text: str, done: int, total: int) -> None:
        """Show the state of the call; a total of 0 marks a note, which stays on the terminal."""
        if total == 0:
            self._show_note(text)
            return
        if text != self._phase:
            _log.info("phase: %s (%d of %d)", text, done, total)
        self._clock.begin(text)
        if self._page is not None:
            self._page.update(done, total)
        elif self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=_plain(text), completed=done, total=max(total, done, 1))
        elif text != self._phase and self._is_visible:
            sys.stderr.write(f"{printable(text)}\n")
        self._phase = text

    def _appear(self) -> None:
        self._is_visible = True
        if self._page is not None:
            self._page.start()
        elif self._bar is not None:
            self._bar.start()
        elif self._phase:
            sys.stderr.write(f"{printable(self._phase)}\n")

    def _show_note(self, text: str) -> None:
        if self._page is not None:
            self._page.notes.append(printable(text))
        elif self._bar is not None:
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
            self._timer.join()  # it may be showing the display just now
        if self._page is not None:
            self._page.stop()
        if self._bar is not None:
            self._bar.stop()


def _plain(text: str) -> str:
    """Return a text that rich prints as it is: brackets are no markup, control characters are written out."""
    from rich import markup

    return markup.escape(printable(text))


class _Clock:
    """The times of a run, which pass between two calls of the callback too.

    Attributes:
        step: The current step.
    """

    def __init__(self) -> None:
        self.step: str = "starting"
        self._updated_s = self._began_s = time.monotonic()

    def begin(self, step: str) -> None:
        """Take the times of the current step."""
        now = time.monotonic()
        self._began_s = self._began_s if step == self.step else now
        self.step, self._updated_s = step, now

    @property
    def times(self) -> str:
        """The time of this step, and of the run with its share of the time limit and what is left, in words."""
        now = time.monotonic()
        step_s = f"{_seconds(now - self._began_s)} in this step"
        if not isinstance(self.step, Step) or math.isnan(self.step.elapsed_s):
            return step_s
        run_s, limit_s = self.step.elapsed_s + now - self._updated_s, self.step.limit_s
        if math.isinf(limit_s):
            return f"{step_s}, {_seconds(run_s)} in all"
        share = f"{_seconds(run_s)} of {_seconds(limit_s)} ({100 * run_s / max(limit_s, 1):.0f} %)"
        return f"{step_s}, {share}, {_seconds(max(limit_s - run_s, 0))} left"

    @property
    def detail(self) -> str:
        """What the search knows so far, in words."""
        return printable(self.step.detail) if isinstance(self.step, Step) else ""


class _Page:
    """The bar below the cell of a notebook; at the end it goes, as the result says all of it.

    Attributes:
        notes: Lines above the bar.
    """

    def __init__(self, clock: _Clock) -> None:
        self.notes: list[str] = []
        display: Any = import_module("IPython.display")
        self._clock, self._html, self._done, self._total = clock, display.HTML, 0, 0
        self._handle = display.display(self._html(""), display_id=True)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def start(self) -> None:
        """Let the times pass."""
        self._thread.start()

    def stop(self) -> None:
        """Remove the bar."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._handle.update(self._html(""))

    def update(self, done: int, total: int) -> None:
        """Show another number of candidates."""
        self._done, self._total = done, total
        self._show()

    def _tick(self) -> None:
        while not self._ended.wait(1.0):
            self._show()

    def _show(self) -> None:
        bar = f'<progress value="{self._done}" max="{max(self._total, 1)}"></progress> {self._done}/{self._total}'
        step = f"<b>{escape(printable(self._clock.step))}</b> {bar}"
        lines = [*map(escape, self.notes), step, escape(self._clock.times), escape(self._clock.detail)]
        self._handle.update(self._html("<br>".join(filter(None, lines))))


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
