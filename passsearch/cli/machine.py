"""``doctor`` and ``toolchain``: what this machine has, what it lacks, and how to install it."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import AsJson
from passsearch.cli.output import NEGATIVE, print_note, print_result, split_names
from passsearch.dialects import DIALECTS
from passsearch.errors import UserError

_FRAMEWORKS = ", ".join(sorted({framework.name for dialect in DIALECTS.values() for framework in dialect.frameworks}))


def doctor(*, as_json: AsJson = False) -> int:
    """Show what works on this machine and what is missing.

    Says how to get what is missing, and exits 1 if it is needed.
    """
    from passsearch.engines import engine_findings
    from passsearch.report import findings_text
    from passsearch.toolchain import diagnose

    findings = [finding.to_json() for finding in (*diagnose(), *engine_findings())]
    print_result({"findings": findings}, findings_text(findings), as_json=as_json)
    # `null` is neither: something optional, such as a power meter, that this machine does not have.
    return NEGATIVE if any(finding["ok"] is False for finding in findings) else 0


def toolchain_commands() -> typer.Typer:
    """Return the commands of ``passsearch toolchain``."""
    app = typer.Typer(help="Python interpreters with one TVM each.", no_args_is_help=True, rich_markup_mode=None)
    app.command("list")(list_all)
    app.command()(install)
    app.command()(add)
    app.command()(remove)
    return app


def list_all(*, as_json: AsJson = False) -> None:
    """List all toolchains."""
    from passsearch.report import toolchains_text
    from passsearch.toolchain import list_toolchains

    rows = [toolchain.to_json() for toolchain in list_toolchains()]
    print_result({"toolchains": rows}, toolchains_text(rows), as_json=as_json)


def install(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"A dialect of TVM ({', '.join(DIALECTS)}), or an engine as `doctor` lists them, such as "
            "`onnxruntime` or `onnxruntime==1.24.1`.",
        ),
    ],
    *,
    frameworks: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="FRAMEWORKS",
            help=f"Frameworks whose model files it shall read, and `cuda`, separated by commas: {_FRAMEWORKS}.",
        ),
    ] = None,
    python: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Python interpreter to use; this one by default.")
    ] = None,
    find_links: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Folder of wheels to install instead of downloading them.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install a toolchain, or the environment of an engine, in the data folder.

    Does nothing if it is installed.
    """
    from passsearch import toolchain
    from passsearch.engines import engine_environment
    from passsearch.report import toolchains_text

    environment = engine_environment(name)
    if environment is not None:
        if frameworks:
            raise UserError(f"`{name}` is an engine without frameworks; leave --with out.")
        interpreter = toolchain.install_engine(environment, python=python, find_links=find_links, progress=print_note)
        text = f"Engine environment {name}: {interpreter}"
        print_result({"engine": {"name": name, "python": str(interpreter)}}, text, as_json=as_json)
        return
    row = toolchain.install(
        name,
        frameworks=split_names(frameworks) or (),
        python=python,
        find_links=find_links,
        progress=print_note,
    ).to_json()
    print_result({"toolchain": row}, toolchains_text([row]), as_json=as_json)


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new toolchain.")],
    *,
    python: Annotated[Path, typer.Option(metavar="PATH", help="Python interpreter that can import its own TVM.")],
    as_json: AsJson = False,
) -> None:
    """Register a Python interpreter that has its own TVM."""
    from passsearch.engines import engine_environment
    from passsearch.report import toolchains_text
    from passsearch.toolchain import add_toolchain

    if engine_environment(name) is not None:
        raise UserError(f"`{name}` is the name of an engine; choose another name for the toolchain.")
    row = add_toolchain(name, python).to_json()
    print_result({"toolchain": row}, toolchains_text([row]), as_json=as_json)


def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name, as in `toolchain list`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Remove a toolchain from the list.

    Deletes its environment too, if `toolchain install` made it.
    """
    from passsearch.engines import engine_environment
    from passsearch.toolchain import list_toolchains, remove_engine, remove_toolchain

    environment = engine_environment(name)
    # Earlier versions allowed a toolchain with the name of an engine.
    if environment is not None and all(toolchain.name != name for toolchain in list_toolchains()):
        remove_engine(environment)
        print_result({"engine": {"name": name}}, f"Removed the environment of engine {name}.", as_json=as_json)
        return
    row = remove_toolchain(name).to_json()
    print_result({"toolchain": row}, f"Removed toolchain {name}.", as_json=as_json)
