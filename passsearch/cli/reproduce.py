"""``reproduce``: the smallest network that shows a fault."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import WORKERS, AsJson, Model, Shared, Timeout, number_option, share_options
from passsearch.cli.output import NEGATIVE, print_result


@share_options("target", "toolchain", "tolerance", "inputs", "batch", *WORKERS)
def reproduce(
    model: Model,
    *,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write.")],
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="PIPELINE", help="A pipeline as text, a named one, a file or a run; by default TVM's default."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="PIPELINE|onnxruntime",
            help="What outputs and times are compared with; by default outputs with unoptimised ONNX Runtime.",
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        number_option("ratio", metavar="RATIO", text="Least ratio of times; by default 80 % of what is seen first."),
    ] = None,
    timeout: Timeout = None,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Write the smallest network with random weights that still shows a crash, a refusal, a wrong result or a slowdown.

    MODEL is ONNX, or a run, whose first failed candidate is meant. Exits 1 if no fault is seen.
    """
    check_environment(shared["toolchain"])
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.reproduce(
            model,
            out=out,
            pipeline=pipeline,
            against=against,
            ratio=ratio,
            timeout=timeout,
            **shared,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)
    return 0 if document["kind"] else NEGATIVE
