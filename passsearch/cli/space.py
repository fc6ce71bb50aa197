"""``explore``: the whole space of a network's pipelines."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from passsearch.cli.network import require, typed_inputs
from passsearch.cli.options import AsJson, Batch, Catalogs, Deadline, Fresh, Inputs, Model, Target, ToolchainName
from passsearch.cli.output import listed, note, show
from passsearch.cli.progress import ProgressBar
from passsearch.core import DEADLINE_S
from passsearch.errors import UserError

NEGATIVE = 1


def explore(
    model: Model,
    *,
    passes: Annotated[
        str | None, typer.Option(metavar="A,B{x=1},…", help="These passes alone; a bare name has all its choices.")
    ] = None,
    additional: Annotated[
        str | None, typer.Option("--additional", metavar="A,B", help="Passes to add that must be asked for.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="All candidates of the catalog, whatever the network's classes.")
    ] = False,
    depth: Annotated[int | None, typer.Option(min=1, metavar="N", help="Longest sequence; any by default.")] = None,
    states: Annotated[int | None, typer.Option(min=1, metavar="N", help="Most different IRs.")] = None,
    timeout: Annotated[float | None, typer.Option(min=1, metavar="SECONDS", help="Wall time.")] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the certificate, as JSON.")] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the graph, as SVG.")] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Apply edges of this certificate again instead.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, metavar="N", help="How many edges --check applies.")] = 50,
    seed: Annotated[int, typer.Option(metavar="N", help="Which ones.")] = 0,
    fresh: Fresh = False,
    target: Target = None,
    deadline: Deadline = DEADLINE_S,
    inputs: Inputs = None,
    batch: Batch = None,
    toolchain: ToolchainName = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> int:
    """Apply the passes in every order until no new IR appears; with --check exits 1 if a certificate does not hold."""
    network: dict[str, Any] = {"inputs": typed_inputs(inputs), "batch": batch, "toolchain": toolchain}
    network |= {"catalogs": catalogs or (), "deadline": deadline}
    require(toolchain)
    require_places(*(path for path in (out, picture) if path is not None and check is None))
    from passsearch import api
    from passsearch.report import check_text, space_picture, space_text

    with ProgressBar() as progress:
        if check is not None:
            held = api.check_space(read_space(check), model, sample=sample, seed=seed, progress=progress, **network)
        else:
            document = api.explore(
                model,
                passes=None if passes is None else [passes],
                additional=listed(additional) or (),
                every=every,
                depth=depth,
                states=states,
                timeout=timeout,
                target=target,
                remember=not fresh,
                progress=progress,
                **network,
            )
    if check is not None:
        show(held, check_text(held), as_json=as_json)
        return 0 if held["holds"] else NEGATIVE
    write_text(out, json.dumps(document, allow_nan=False))
    write_text(picture, space_picture(document) if picture is not None else "")
    told = {key: value for key, value in document.items() if key != "graph"}
    show(told, space_text(document), as_json=as_json)
    return 0


def read_space(path: Path) -> Mapping[str, Any]:
    """A file that ``explore --out`` wrote."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read the certificate `{path}`: {error.strerror}.") from None
    except ValueError:
        raise UserError(
            f"The certificate `{path}` is not JSON; make one with: passsearch explore MODEL --out FILE"
        ) from None
    needed = {"schema", "model", "classes", "steps", "states", "closed", "idle", "commuting", "graph"}
    if not isinstance(document, dict) or not needed <= set(document):
        raise UserError(f"`{path}` holds no explored space; make one with: passsearch explore MODEL --out FILE")
    return document


def require_places(*paths: Path) -> None:
    """Refuse what cannot be written before anything is explored for it."""
    for path in paths:
        folder = path.absolute().parent
        if path.is_dir():
            raise UserError(f"Cannot write `{path}`: it is a folder; name a file in it.")
        if not folder.is_dir():
            raise UserError(
                f"Cannot write `{path}`: there is no folder `{path.parent}`; make it or choose another file."
            )
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UserError(f"Cannot write `{path}`: no right to; choose another file.")


def write_text(path: Path | None, text: str) -> None:
    """Write a file, if one is wanted, and say so."""
    if path is None:
        return
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"Cannot write `{path}`: {error.strerror}; choose another file.") from None
    note(f"wrote {path}")
