"""Log output of a command: ``--verbose`` prints to standard error, ``--log-file`` writes to a file."""

import logging
import platform
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from passsearch import __version__
from passsearch.core import NOTICE_LOG, printable
from passsearch.errors import UserError

# Only this logger: those of other libraries (numba, matplotlib, …) would bury what the user looks for.
_LOGGER = logging.getLogger("passsearch")
_NOTICE_LOGGER = logging.getLogger(NOTICE_LOG)
_PLAIN_FORMAT = logging.Formatter("%(message)s")
_STDERR_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", datefmt="%H:%M:%S")
# With the thread, because the workers of a search are driven by several threads at once.
_FILE_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")


class CommandLog(ExitStack):
    """Handlers of the ``passsearch`` logger; they are removed when the command ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        super().__init__()
        self._arguments = arguments
        self._verbosity = 0
        self._stderr, self._notices = _StderrHandler(_STDERR_FORMAT), _StderrHandler(_PLAIN_FORMAT)
        self.callback(_LOGGER.setLevel, _LOGGER.level)
        # Notices are for users who do not ask for the log.
        _NOTICE_LOGGER.addHandler(self._notices)
        self.callback(_NOTICE_LOGGER.removeHandler, self._notices)

    def log_to_stderr(self, verbosity: int) -> None:
        """Print the log to standard error: from INFO if the sum over all calls is 1, from DEBUG if it is 2 or more."""
        self._verbosity += verbosity
        if self._verbosity:
            _NOTICE_LOGGER.removeHandler(self._notices)  # else its lines would be printed twice
            self._attach(self._stderr, logging.INFO if self._verbosity == 1 else logging.DEBUG)

    def log_to_file(self, path: Path) -> None:
        """Append the log, DEBUG included, to a file.

        Raises:
            UserError: The file cannot be written.
        """
        try:
            handler = logging.FileHandler(path, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"Cannot write the log file `{path}`: {error.strerror}; choose another with --log-file."
            ) from None
        self.callback(handler.close)
        handler.setFormatter(_FILE_FORMAT)
        self._attach(handler, logging.DEBUG)
        # A file may hold several commands, and a log sent to someone else must say what it is of.
        versions = f"passsearch {__version__}, Python {platform.python_version()}"
        _LOGGER.debug("%s, command: passsearch %s", versions, shlex.join(self._arguments))

    def _attach(self, handler: logging.Handler, level: int) -> None:
        handler.setLevel(level)
        _LOGGER.setLevel(min(level, _LOGGER.level or level))
        _LOGGER.addHandler(handler)
        self.callback(_LOGGER.removeHandler, handler)


class _StderrHandler(logging.Handler):
    """Prints to what ``sys.stderr`` is at that moment.

    A progress bar replaces ``sys.stderr`` while it is shown, so that other lines appear above it. A ``StreamHandler``
    would keep the earlier stream and write into the bar.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        sys.stderr.write(printable(self.format(record), keep="\n\t") + "\n")


def _set_verbosity(context: typer.Context, verbosity: int) -> None:
    command_log = context.find_object(CommandLog)
    if command_log is not None:
        command_log.log_to_stderr(verbosity)


def _set_log_file(context: typer.Context, path: Path | None) -> None:
    command_log = context.find_object(CommandLog)
    if command_log is not None and path is not None:
        command_log.log_to_file(path)


# `expose_value=False`: the options are added to every command, but no command's function has a parameter for them.
Verbose: TypeAlias = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        expose_value=False,
        callback=_set_verbosity,
        help="Log to standard error what the command is doing; -vv adds the reasons and details.",
    ),
]
LogFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--log-file",
        metavar="FILE",
        expose_value=False,
        callback=_set_log_file,
        help="Append the full log, with timestamps, to this file.",
    ),
]
