"""``compile``: one command without a search."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import (
    ALL,
    AsJson,
    Budget,
    Labels,
    Model,
    Precision,
    RivalNames,
    Shared,
    number_option,
    share_options,
)
from passsearch.cli.output import NEGATIVE, print_result, split_names
from passsearch.core import FLOAT32


@share_options(*ALL)
def compile_network(
    model: Model,
    *,
    to: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    pipeline: Annotated[
        str,
        typer.Option(metavar="PIPELINE", help="`recommended`, or a pipeline as text, a named one, a file or a run."),
    ] = "recommended",
    seconds: Annotated[
        float,
        number_option("seconds", metavar="SECONDS", text="Time to try other sequences; 0 builds the recommended one."),
    ] = 0.0,
    rivals: RivalNames = None,
    precision: Precision = FLOAT32,
    budget: Budget = None,
    labels: Labels = None,
    only_if_faster: Annotated[
        bool, typer.Option("--only-if-faster", help="Exit 1 where another engine is faster.")
    ] = False,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Compile a network by the recommended pipeline, check its outputs, and export it; nothing is searched."""
    check_environment(shared["toolchain"])
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.compile(
            model,
            to=to,
            pipeline=pipeline,
            seconds=seconds,
            rivals=split_names(rivals),
            precision=precision,
            budget=budget,
            labels=labels,
            **shared,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)
    return NEGATIVE if only_if_faster and document.is_slower else 0
