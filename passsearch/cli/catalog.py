"""``catalog``: the passes there are, one of them in full, and all of them held against a compiler."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from passsearch.cli.options import AsJson, Catalogs, ToolchainName
from passsearch.cli.output import show
from passsearch.cli.progress import ProgressBar
from passsearch.dialects import DIALECTS, dialect

if TYPE_CHECKING:
    from passsearch.catalog import Catalog

NEGATIVE = 1
FIRST = next(iter(DIALECTS))

DialectName = Annotated[str, typer.Option("--dialect", metavar="NAME", help=f"One of: {', '.join(DIALECTS)}.")]


def catalog_commands() -> typer.Typer:
    """The commands of ``passsearch catalog``."""
    app = typer.Typer(help="The passes a search draws from.", no_args_is_help=True, rich_markup_mode=None)
    app.command("list")(list_them)
    app.command("show")(show_one)
    app.command()(check)
    app.command()(learn)
    return app


def list_them(*, name: DialectName = FIRST, catalogs: Catalogs = None, as_json: AsJson = False) -> None:
    """List all passes and named sequences."""
    from passsearch.report import catalog_text

    found = _load(name, catalogs or ())
    document = {
        "dialect": found.dialect,
        "passes": [asdict(entry) for entry in found.entries.values()],
        "sequences": [
            {
                "name": each.name,
                "summary": each.summary,
                "pipeline": str(each.pipeline),
                "build": each.build.to_json(),
            }
            for each in found.sequences.values()
        ],
    }
    show(document, catalog_text(document), as_json=as_json)


def show_one(
    wanted: Annotated[str, typer.Argument(metavar="PASS", help="A pass, as `catalog list` shows it.")],
    *,
    name: DialectName = FIRST,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Show all the catalog knows of one pass."""
    from passsearch.report import entry_text

    document = asdict(_load(name, catalogs or ()).entry(wanted))
    show(document, entry_text(document), as_json=as_json)


def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[PASS]...", help="Check these only.", show_default=False)
    ] = None,
    *,
    toolchain: ToolchainName = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> int:
    """Hold every entry against the TVM of a toolchain; exits 1 if one does not fit."""
    from passsearch.evaluate.catalog_check import check_entries
    from passsearch.report import checks_text
    from passsearch.toolchain import get_toolchain

    chosen = get_toolchain(toolchain)
    found = _load(chosen.dialect, catalogs or ())
    entries = [found.entry(name) for name in names] if names else list(found.entries.values())
    with ProgressBar() as progress:
        rows = [each.to_json() for each in check_entries(chosen, entries, paths=_parents(catalogs), progress=progress)]
    document = {"toolchain": chosen.name, "tvm_version": chosen.tvm_version, "entries": rows}
    show(document, checks_text(document), as_json=as_json)
    return NEGATIVE if any(row["problems"] for row in rows) else 0


def learn(
    spaces: Annotated[list[Path], typer.Argument(metavar="SPACE...", help="Files that `explore --out` wrote.")],
    *,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to a file instead.")] = None,
    as_json: AsJson = False,
) -> None:
    """Propose, by class, what explored spaces show: passes that change nothing, pairs whose order is all the same."""
    from passsearch.catalog import learned, proposal
    from passsearch.cli.space import read_space, write_text

    documents = [read_space(path) for path in spaces]
    text = proposal(documents)
    write_text(out, text)
    show(learned(documents), text if out is None else "", as_json=as_json)


def _load(name: str, catalogs: Sequence[Path]) -> "Catalog":
    from passsearch.catalog import load

    return load(dialect(name).name, *catalogs)


def _parents(catalogs: Sequence[Path] | None) -> tuple[str, ...]:
    return tuple(sorted({str(path.absolute().parent) for path in catalogs or ()}))
