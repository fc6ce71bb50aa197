"""All commands under one name, and the one place that turns errors into a line and an exit status."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer

# These modules import the other rooms inside their functions, so that `--help` and mistakes are answered at once.
from passsearch import __version__
from passsearch.cli import (
    apply,
    batch,
    bench,
    catalog,
    compiling,
    examples,
    explore,
    machine,
    network,
    profile,
    recommending,
    regress,
    reproduce,
    run,
    runs,
    trying,
)
from passsearch.cli.log_output import CommandLog, LogFile, Verbose
from passsearch.cli.output import print_error
from passsearch.core import interruptible, on_command_line
from passsearch.errors import PassSearchError

# 130 is what a shell reports for a process that Ctrl-C ended: 128 + SIGINT.
DONE, USAGE, FAULT, INTERRUPTED = 0, 2, 3, 130

DEBUG_VARIABLE = "PASSSEARCH_DEBUG"
EXIT_STATUS = (
    "Exit status: 0 done, 1 done with a negative answer, 2 mistake in the command or its files, "
    "3 problem of the machine, 4 search undecided, 5 winner not confirmed, 130 interrupted."
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"passsearch {__version__}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
]

_log = logging.getLogger(__name__)

# Releases of typer keep this class in different modules; all of them export its subclass.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def application() -> typer.Typer:
    """Return the application with all commands."""
    app = typer.Typer(
        name="passsearch",
        help="Find the compiler passes, and their order, that serve a network best on its device, and prove the gain.",
        epilog=EXIT_STATUS,
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        add_completion=False,
        rich_markup_mode=None,  # plain help: rich takes longer to import than all of the CLI
        pretty_exceptions_enable=False,
    )
    app.callback()(_global_options)
    app.command()(machine.doctor)
    app.add_typer(machine.toolchain_commands(), name="toolchain")
    app.command()(network.analyze)
    app.add_typer(catalog.catalog_commands(), name="catalog")
    app.command()(network.zoo)
    app.command()(examples.examples)
    app.command()(recommending.recommend)
    app.command()(network.tune)
    app.command(name="compile")(compiling.compile_network)
    app.command()(apply.apply)
    app.command()(regress.regress)
    app.command()(reproduce.reproduce)
    app.command(name="try")(trying.try_kernel)
    app.command()(explore.explore)
    app.command()(network.compare)
    app.command()(bench.bench)
    app.command()(profile.profile)
    app.command()(run.export)
    app.command()(run.audit)
    app.command()(run.ablate)
    app.command()(run.report)
    app.add_typer(runs.runs_commands(), name="runs")
    app.add_typer(batch.batch_commands(), name="batch")
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after ``passsearch``; those of this process by default.

    Returns:
        The exit status: 0 done, 1 done with a negative answer, 2 the user's mistake, 3 the environment's fault,
        4 a search that is undecided, 5 a winner that could not be confirmed, 130 interrupted.
    """
    _replace_unprintable()
    words = list(sys.argv[1:] if arguments is None else arguments)
    start = time.monotonic()
    with CommandLog(words) as command_log, interruptible(), on_command_line():
        try:
            status = _run(words, command_log)
        except (KeyboardInterrupt, typer.Abort):
            _log.debug("interrupted", exc_info=True)
            status = INTERRUPTED
        except BrokenPipeError:
            # The reader of standard output has gone; Python would fail again when it flushes the rest at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        except Exception as error:  # the user gets one line instead of a traceback
            if os.environ.get(DEBUG_VARIABLE) == "1":
                raise
            status = _explain(error)
        _log.debug("exit status %d after %.1f s", status, time.monotonic() - start)
    if status == INTERRUPTED:
        print_error("interrupted; what is in a run folder or in the cache folder is kept, and the same command uses it")
    return status


def _global_options(verbose: Verbose = 0, log_file: LogFile = None, version: Version = False) -> None:
    """Declare the options; their callbacks do the work."""


def _run(words: list[str], command_log: CommandLog) -> int:
    command = typer.main.get_command(application())
    _add_log_options(command)
    # Outside standalone mode, typer raises its errors instead of printing them and leaving the process.
    status = command(words, prog_name="passsearch", standalone_mode=False, obj=command_log)
    return int(status or DONE)


def _add_log_options(root: Any) -> None:
    """Make the log options valid after the name of a command as well as before it."""
    for command in _subcommands(root):
        command.params.extend(option for option in root.params if option.name != "version")


def _subcommands(group: Any) -> Iterator[Any]:
    for command in getattr(group, "commands", {}).values():
        yield command
        yield from _subcommands(command)


def _explain(error: Exception) -> int:
    """Print one line on an error and return the exit status."""
    _log.debug("stopped by an error", exc_info=error)
    if isinstance(error, PassSearchError):
        print_error(str(error))
        return error.exit_code
    if isinstance(error, _UsageError):
        return _explain_usage(error)
    # A full disk or a broken mount can hit any line; `doctor` shows the free space and the folders.
    if isinstance(error, OSError):
        print_error(f"{error}. See: passsearch doctor")
        return FAULT
    print_error(
        f"internal error: {type(error).__name__}: {error}; please report it. {DEBUG_VARIABLE}=1 shows the traceback"
    )
    return FAULT


def _explain_usage(error: Exception) -> int:
    """Print what is wrong with the words of the command; releases of typer have different attributes for that."""
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "message", "") or getattr(error, "format_message", str)())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help() if context else message, err=True)
    else:
        path = context.command_path if context else "passsearch"
        mistake = str(getattr(error, "format_message", lambda: message)())
        end = "" if mistake.endswith("?") else "."
        print_error(f"{mistake.rstrip('.')}{end} See: {path} --help")
    return USAGE


def _replace_unprintable() -> None:
    """Print ``?`` for a character that the terminal's encoding lacks, instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
