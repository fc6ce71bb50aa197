"""``explore``: the whole space of a network's pipelines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import NETWORK, WORKERS, AsJson, Fresh, Model, Shared, Timeout, number_option, share_options
from passsearch.cli.output import NEGATIVE, print_result, require_writable, split_names, write_text
from passsearch.core import SOURCE, parse_json
from passsearch.errors import UserError

CERTIFICATE_KEYS = {"schema", "model", "classes", "steps", "states", "closed", "idle", "commuting", "graph"}
"""Keys that distinguish a certificate from other JSON files; ``api.check_space`` checks the rest."""


@share_options("target", "samples", "reference", "toolchain", *NETWORK, *WORKERS)
def explore(
    model: Model,
    *,
    passes: Annotated[
        str | None,
        typer.Option(
            metavar="A,B{x=1},…", help="Only these passes; a name without arguments stands for all its arguments."
        ),
    ] = None,
    additional: Annotated[
        str | None,
        typer.Option("--additional", metavar="A,B", help="Also these passes, which the catalog uses only on request."),
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="All candidate passes of the catalog, whatever the network's classes.")
    ] = False,
    depth: Annotated[
        int | None,
        number_option("depth", metavar="N", text="Largest number of passes in a sequence; no limit by default."),
    ] = None,
    states: Annotated[
        int | None, number_option("states", metavar="N", text="Largest number of states (different IRs).")
    ] = None,
    timeout: Timeout = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the certificate as JSON.")] = None,
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the state graph as SVG.")] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Do not explore; check this certificate by applying some passes again."),
    ] = None,
    sample: Annotated[
        int | None, number_option("sample", metavar="N", text="Edges that --check applies again; 50 by default.")
    ] = None,
    seed: Annotated[
        int | None, number_option("seed", metavar="N", text="Seed that selects the edges for --check; 0 by default.")
    ] = None,
    fresh: Fresh = False,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Apply passes in every order until no new IR appears.

    Shows how many IRs the passes can make. With --check, exits 1 if the certificate does not hold.
    """
    check_environment(shared["toolchain"])
    if check is not None:
        others: dict[str, object] = {
            "--passes": passes,
            "--additional": additional,
            "--every": every or None,
            "--depth": depth,
            "--states": states,
            "--timeout": timeout,
            "--out": out,
            "--picture": picture,
            "--fresh": fresh or None,
            "--target": shared.pop("target"),
            "--reference": None if (reference := shared.pop("reference")) == SOURCE else reference,
        }
        if unused := [name for name, value in others.items() if value is not None]:
            raise UserError(f"`--check` explores nothing, so `{unused[0]}` has no effect; leave it out.")
        shared |= {name: value for name, value in (("sample", sample), ("seed", seed)) if value is not None}
        return _check_certificate(check, model, shared=shared, as_json=as_json)
    if sample is not None or seed is not None:
        raise UserError("`--sample` and `--seed` choose edges for `--check`; give that certificate, or leave them out.")
    # Before the exploration, which can take hours: a file that cannot be written must not be noticed only then.
    require_writable(*(path for path in (out, picture) if path is not None))
    from passsearch import api
    from passsearch.report import ProgressBar, state_graph_svg
    from passsearch.results import ExploredSpace

    with ProgressBar() as progress:
        document = api.explore(
            model,
            # As one text: arguments hold commas too, so `A{x=1,y=2},B` cannot be split at commas here.
            passes=None if passes is None else [passes],
            additional=split_names(additional) or (),
            every=every,
            depth=depth,
            states=states,
            timeout=timeout,
            remember=not fresh,
            progress=progress,
            **shared,
        )
    if out is not None:
        write_text(out, json.dumps(document, allow_nan=False))
    if picture is not None:
        write_text(picture, state_graph_svg(ExploredSpace.from_json(document)))
    # The graph has a row per state, thousands in a large space; `--out` writes it.
    summary = {key: value for key, value in document.items() if key != "graph"}
    print_result(summary, str(document), as_json=as_json)
    return 0


def _check_certificate(file: Path, model: str, *, shared: Shared, as_json: bool) -> int:
    from passsearch import api
    from passsearch.report import ProgressBar, certificate_check_text
    from passsearch.results import CertificateCheck

    with ProgressBar() as progress:
        outcome = api.check_space(read_certificate(file), model, progress=progress, **shared)
    print_result(outcome, certificate_check_text(CertificateCheck.from_json(outcome)), as_json=as_json)
    return 0 if outcome["holds"] else NEGATIVE


def read_certificate(path: Path) -> Mapping[str, Any]:
    """Return the content of a file that ``explore --out`` wrote.

    Raises:
        UserError: The file cannot be read or is not a certificate.
    """
    command = "passsearch explore MODEL --out FILE"
    try:
        document = parse_json(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read the certificate `{path}`: {error.strerror}; make one with: {command}") from None
    except ValueError:
        raise UserError(f"The certificate `{path}` is not JSON; make one with: {command}") from None
    if not isinstance(document, dict) or not set(document) >= CERTIFICATE_KEYS:
        raise UserError(f"`{path}` holds no explored space; make one with: {command}")
    return document
