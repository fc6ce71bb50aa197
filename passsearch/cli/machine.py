"""``doctor`` and ``toolchain``: what is here, what is missing, and how to get it."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import AsJson
from passsearch.cli.output import listed, note, show
from passsearch.dialects import DIALECTS

NEGATIVE = 1
_FRAMEWORKS = ", ".join(sorted({each.name for found in DIALECTS.values() for each in found.frameworks}))


def doctor(*, as_json: AsJson = False) -> int:
    """Say what works here, what is missing, and how to get it; exits 1 if something needed is missing."""
    from passsearch.report import findings_text
    from passsearch.toolchain import diagnose

    findings = [finding.to_json() for finding in diagnose()]
    show({"findings": findings}, findings_text(findings), as_json=as_json)
    return NEGATIVE if any(finding["ok"] is False for finding in findings) else 0


def toolchain_commands() -> typer.Typer:
    """The commands of ``passsearch toolchain``."""
    app = typer.Typer(help="Interpreters with one TVM each.", no_args_is_help=True, rich_markup_mode=None)
    app.command("list")(list_them)
    app.command()(install)
    app.command()(add)
    app.command()(remove)
    return app


def list_them(*, as_json: AsJson = False) -> None:
    """List the toolchains there are."""
    from passsearch.report import toolchains_text
    from passsearch.toolchain import list_toolchains

    rows = [toolchain.to_json() for toolchain in list_toolchains()]
    show({"toolchains": rows}, toolchains_text(rows), as_json=as_json)


def install(
    dialect: Annotated[str, typer.Argument(metavar="DIALECT", help=f"One of: {', '.join(DIALECTS)}.")],
    *,
    frameworks: Annotated[
        str | None,
        typer.Option(
            "--with", metavar="FRAMEWORKS", help=f"Frameworks whose files it is to read, by commas: {_FRAMEWORKS}."
        ),
    ] = None,
    python: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Interpreter to base it on; this one by default.")
    ] = None,
    find_links: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Wheels to install from instead of the network.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a toolchain in the data folder; returns at once if it is there."""
    from passsearch.report import toolchains_text
    from passsearch.toolchain import install as make

    names = listed(frameworks) or ()
    made = make(dialect, frameworks=names, python=python, find_links=find_links, progress=note).to_json()
    show({"toolchain": made}, toolchains_text([made]), as_json=as_json)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    *,
    python: Annotated[Path, typer.Option(metavar="PATH", help="An interpreter that can import its own TVM.")],
    as_json: AsJson = False,
) -> None:
    """Register an interpreter that has its own TVM."""
    from passsearch.report import toolchains_text
    from passsearch.toolchain import add_toolchain

    added = add_toolchain(name, python).to_json()
    show({"toolchain": added}, toolchains_text([added]), as_json=as_json)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `toolchain list` shows it.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Forget a toolchain; deletes its environment if `toolchain install` made it."""
    from passsearch.toolchain import remove_toolchain

    removed = remove_toolchain(name).to_json()
    show({"toolchain": removed}, f"Removed toolchain {name}.", as_json=as_json)
