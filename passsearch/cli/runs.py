"""``runs``: list the runs that are kept, and delete old ones."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from passsearch.cli.options import AsJson
from passsearch.cli.output import print_result
from passsearch.core import Json

if TYPE_CHECKING:
    from passsearch.store import StoredRun

Folder = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", help="Folder of runs; by default the one of `tune` without --out."),
]


def runs_commands() -> typer.Typer:
    """Return the commands of ``passsearch runs``."""
    app = typer.Typer(help="The runs of `tune` that are kept; without a command, list them.", rich_markup_mode=None)
    app.callback(invoke_without_command=True)(list_by_default)
    app.command("list")(list_all)
    app.command()(clean)
    return app


def list_by_default(context: typer.Context, *, as_json: AsJson = False) -> None:
    """List the runs if no command is given."""
    if context.invoked_subcommand is None:
        list_all(as_json=as_json)


def list_all(folder: Folder = None, *, as_json: AsJson = False) -> None:
    """List runs with network, date, outcome and size, the last one first."""
    from passsearch.report import runs_text
    from passsearch.store import stored_runs

    parent = _runs_folder(folder)
    document: dict[str, Json] = {"folder": str(parent), "runs": [_row(run) for run in stored_runs(parent)]}
    print_result(document, runs_text(document), as_json=as_json)


def clean(
    folder: Folder = None,
    *,
    older_than: Annotated[
        float, typer.Option("--older-than", min=0, metavar="DAYS", help="Days since the last measurement of a run.")
    ],
    as_json: AsJson = False,
) -> None:
    """Delete runs that measured nothing for some days; runs in use stay."""
    from passsearch.report import format_megabytes
    from passsearch.store import DAY_S, delete_runs

    parent = _runs_folder(folder)
    deleted = delete_runs(parent, older_than_s=older_than * DAY_S)
    size = sum(run.bytes for run in deleted)
    document: dict[str, Json] = {"folder": str(parent), "deleted": [str(run.folder) for run in deleted], "bytes": size}
    number = "1 run" if len(deleted) == 1 else f"{len(deleted)} runs"
    print_result(document, f"Deleted {number} in {parent}, {format_megabytes(size)} MB.", as_json=as_json)


def _runs_folder(folder: Path | None) -> Path:
    from passsearch.toolchain import user_cache_folder

    return folder or user_cache_folder() / "runs"


def _row(run: "StoredRun") -> dict[str, Json]:
    result = run.result or {}
    keys = ("model", "toolchain", "verdict")
    return {
        "folder": str(run.folder),
        **{key: result.get(key) for key in keys},
        "measured_at": run.measured_at,
        "interrupted": result.get("interrupted"),
        "bytes": run.bytes,
    }
