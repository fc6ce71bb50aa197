"""All commands under one name, and the one place where errors become a line and an exit code."""

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import typer

from passsearch.cli import catalog, machine, network, run, space
from passsearch.cli.output import complain
from passsearch.errors import PassSearchError

DONE, FAULT, INTERRUPTED = 0, 3, 130
DEBUG_VARIABLE = "PASSSEARCH_DEBUG"

# Releases of typer keep this class in different modules; all of them export its subclass.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


def application() -> typer.Typer:
    """The commands; plain help, because rich would cost as much to import as all the rest."""
    app = typer.Typer(
        name="passsearch",
        help="Search compiler pass selection and order for a network on its device, and prove the result.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.command()(machine.doctor)
    app.add_typer(machine.toolchain_commands(), name="toolchain")
    app.command()(network.analyze)
    app.add_typer(catalog.catalog_commands(), name="catalog")
    app.command()(network.tune)
    app.command()(space.explore)
    app.command()(network.compare)
    app.command()(run.export)
    app.command()(run.audit)
    app.command()(run.report)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: As typed after ``passsearch``; the process's own by default.

    Returns:
        0 done, 1 done with a negative answer, 2 the user's mistake, 3 the environment's fault,
        130 interrupted.
    """
    _replace_unprintable()
    try:
        code = _run(arguments)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has seen enough; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:  # nothing but a line reaches the user
        if os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        return _explain(error)
    if code == INTERRUPTED:
        complain("interrupted; what was found until then is kept")
    return code


def _run(arguments: Sequence[str] | None) -> int:
    typed = None if arguments is None else list(arguments)
    code = application()(typed, prog_name="passsearch", standalone_mode=False)
    return int(code or DONE)


def _explain(error: Exception) -> int:
    if isinstance(error, PassSearchError):
        complain(str(error))
        return error.exit_code
    if isinstance(error, _UsageError):
        return _explain_usage(error)
    if isinstance(error, OSError):
        complain(f"{error}. See: passsearch doctor")
        return FAULT
    complain(
        f"internal error: {type(error).__name__}: {error}; please report it. {DEBUG_VARIABLE}=1 shows the traceback"
    )
    return FAULT


def _explain_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    message = str(getattr(error, "message", "") or getattr(error, "format_message", str)())
    if type(error).__name__ == "NoArgsIsHelpError":
        typer.echo(context.get_help() if context else message, err=True)
    else:
        path = context.command_path if context else "passsearch"
        told = str(getattr(error, "format_message", lambda: message)())
        complain(f"{told.rstrip('.')}. See: {path} --help")
    return 2


def _replace_unprintable() -> None:
    """A terminal that cannot show a character gets ``?``, not an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
