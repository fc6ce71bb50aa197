"""``catalog``: list the passes, show one, check them with a compiler, learn from explored spaces."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from passsearch.cli.options import AsJson, Catalogs, ToolchainName
from passsearch.cli.output import NEGATIVE, print_result
from passsearch.dialects import DIALECTS, dialect

if TYPE_CHECKING:
    from passsearch.catalog import Catalog

DEFAULT_DIALECT = next(iter(DIALECTS))

CHECKED_NETWORKS = ("zoo:resnet_tiny", "zoo:bert_tiny")
"""Networks that sequences are reached on by default."""

DialectName = Annotated[str, typer.Option("--dialect", metavar="NAME", help=f"One of: {', '.join(DIALECTS)}.")]


def catalog_commands() -> typer.Typer:
    """Return the commands of ``passsearch catalog``."""
    app = typer.Typer(help="The passes that a search can use.", no_args_is_help=True, rich_markup_mode=None)
    app.command("list")(list_all)
    app.command("show")(show)
    app.command()(check)
    app.command()(learn)
    return app


def list_all(*, name: DialectName = DEFAULT_DIALECT, catalogs: Catalogs = None, as_json: AsJson = False) -> None:
    """List all passes and named sequences."""
    from passsearch.report import catalog_text

    catalog = _load(name, catalogs or ())
    document = {
        "dialect": catalog.dialect,
        "passes": [entry.to_json() for entry in catalog.entries.values()],
        "sequences": [sequence.to_json() for sequence in catalog.sequences.values()],
    }
    print_result(document, catalog_text(document), as_json=as_json)


def show(
    pass_name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of a pass or of a sequence, as in `catalog list`.")
    ],
    *,
    name: Annotated[
        str | None,
        typer.Option("--dialect", metavar="NAME", help="Dialect of the name.", show_default="the first that has it"),
    ] = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Show everything the catalog says about one pass, or about one named sequence."""
    from passsearch.catalog import describe_name
    from passsearch.report import catalog_entry_text

    document = describe_name(pass_name, [dialect(name).name] if name else [*DIALECTS], *catalogs or ())
    print_result(document, catalog_entry_text(document), as_json=as_json)


def check(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[PASS]...", help="Check only these passes.", show_default=False)
    ] = None,
    *,
    networks: Annotated[
        list[str] | None,
        typer.Option(
            "--network",
            metavar="MODEL",
            help="Network to reach the named sequences on; may be given several times.",
            show_default=", ".join(CHECKED_NETWORKS),
        ),
    ] = None,
    toolchain: ToolchainName = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> int:
    """Check the catalog's entries and sequences with the TVM of a toolchain.

    Every sequence is applied twice to a network, from states that sequences share and in a process of its own, and must
    reach the same IR. With names of passes, only these are checked.

    Exits 1 if an entry is not valid, or if a sequence reaches two IRs.
    """
    from passsearch.api.catalog import check_catalog_sequences
    from passsearch.evaluate.catalog_check import check_entries
    from passsearch.report import ProgressBar, catalog_check_text
    from passsearch.results import CatalogCheck
    from passsearch.search import check_features
    from passsearch.toolchain import get_toolchain

    compiler = get_toolchain(toolchain)
    catalog = _load(compiler.dialect, catalogs or ())
    check_features(catalog)
    entries = [catalog.entry(name) for name in names] if names else list(catalog.entries.values())
    with ProgressBar() as progress:
        checks = check_entries(compiler, entries, paths=_parent_folders(catalogs), progress=progress)
        sequences = tuple(
            sequence
            for network in networks or (() if names else CHECKED_NETWORKS)
            for sequence in check_catalog_sequences(network, compiler.name, catalogs=catalogs or (), progress=progress)
        )
    check = CatalogCheck(compiler.name, compiler.tvm_version, checks, sequences)
    print_result(check.to_json(), catalog_check_text(check), as_json=as_json)
    return NEGATIVE if check.is_wrong else 0


def learn(
    sources: Annotated[
        list[Path],
        typer.Argument(metavar="SOURCE...", help="Files that `explore --out` wrote, and run folders of `tune`."),
    ],
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the YAML to this file instead of standard output.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Propose catalog data from explored spaces and from searches.

    By class: passes that change nothing, pairs of passes whose order does not matter, and schedules that are faster
    than a pass's own on most kernels of a kind.
    """
    from passsearch.catalog import format_proposal, summarize_spaces
    from passsearch.cli.explore import read_certificate
    from passsearch.cli.output import write_text
    from passsearch.studies import learn_schedules

    runs = [path for path in sources if path.is_dir()]
    certificates = [read_certificate(path) for path in sources if not path.is_dir()]
    proposal = {"learned": summarize_spaces(certificates)} if certificates else {}
    proposal |= {"schedules": learn_schedules(runs)} if runs else {}
    text = format_proposal(proposal)
    if out is not None:
        write_text(out, text)
    print_result(proposal, text if out is None else "", as_json=as_json)


def _load(name: str, catalogs: Sequence[Path]) -> "Catalog":
    # Imported here: `passsearch --help` must not pay for PyYAML.
    from passsearch.catalog import load

    return load(dialect(name).name, *catalogs)


def _parent_folders(catalogs: Sequence[Path] | None) -> tuple[str, ...]:
    """Return the folders of the user's catalog files; the modules of the user's passes are in the same folders."""
    return tuple(sorted({str(path.absolute().parent) for path in catalogs or ()}))
