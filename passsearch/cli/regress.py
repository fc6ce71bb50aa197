"""``regress``: what got slower between two engines, versions or pipelines."""

from typing import Annotated

import typer

from passsearch.cli.options import AsJson, Shared, number_option, share_options
from passsearch.cli.output import NEGATIVE, print_result


@share_options("target", "tolerance", "inputs", "batch", "memory", "catalogs", "trust")
def regress(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="ONNX file or zoo:NAME; two runs need none."),
    ] = None,
    *,
    before: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="A",
            help="An engine (onnxruntime), a version of one (onnxruntime==1.24.1), either with options of its session "
            "in braces, a toolchain, a version of TVM, TOOLCHAIN:PIPELINE, a run or an export.",
        ),
    ],
    after: Annotated[str, typer.Option("--to", metavar="B", help="The same; what may be slower.")],
    threshold: Annotated[float, number_option("threshold", metavar="SHARE", text="Slowdown that counts.")] = 0.02,
    seconds: Annotated[
        float, number_option("seconds", metavar="SECONDS", text="Time limit, exchanges of passes included.")
    ] = 600.0,
    threads: Annotated[
        int | None,
        number_option("threads", metavar="N", text="Threads of each side; one for each physical core by default."),
    ] = None,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Say what got slower from A to B: how much, which kernels, and which pass or setting.

    Exits 1 if B is certainly slower, beyond the threshold in two measurements, or fails.
    """
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.regress(
            model,
            before=before,
            after=after,
            threshold=threshold,
            seconds=seconds,
            threads=threads,
            **shared,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)
    return NEGATIVE if document["regressed"] else 0
