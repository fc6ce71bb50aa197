"""``try``: a foreign kernel in the place of one of a network."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import WORKERS, AsJson, Shared, share_options
from passsearch.cli.output import NEGATIVE, print_result


@share_options("target", "toolchain", "tolerance", "inputs", "batch", *WORKERS)
def try_kernel(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[KERNEL]",
            help="TVMScript (.py), TVM's JSON, C or C++ with one function; without it, how the function has to begin.",
        ),
    ] = None,
    *,
    subject: Annotated[str, typer.Option("--for", metavar="RUN|MODEL", help="Run folder, or a network.")],
    kernel: Annotated[str, typer.Option(metavar="NAME", help="Kernel whose place it takes, as `profile` names it.")],
    to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Export the network with the kernel if it is admitted and surely not slower."),
    ] = None,
    pipeline: Annotated[
        str | None, typer.Option(metavar="PIPELINE", help="Pipeline of a network; by default the recommended one.")
    ] = None,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Check a foreign kernel in the place of one of a network, time it there, and admit or refuse it.

    The kernel runs in processes that may crash. Exits 1 if it is refused, or not exported.
    """
    check_environment(shared["toolchain"])
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.try_kernel(file, subject, kernel=kernel, to=to, pipeline=pipeline, **shared, progress=progress)
    print_result(document, str(document), as_json=as_json)
    is_refused = bool(document["checks"]) and not document["admitted"]
    return NEGATIVE if is_refused or document["not_exported"] else 0
