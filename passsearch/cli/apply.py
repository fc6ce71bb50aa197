"""``apply``: a pipeline pass by pass, with the IR before and after."""

from typing import Annotated

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import NETWORK, WORKERS, AsJson, Model, Shared, share_options
from passsearch.cli.output import NEGATIVE, print_result


@share_options("target", "toolchain", *NETWORK, *WORKERS)
def apply(
    model: Model,
    *,
    pipeline: Annotated[
        str,
        typer.Option(metavar="PIPELINE", help="A pipeline as text, `P,Q{k=1}`, a named one, a pipeline file or a run."),
    ],
    print_ir: Annotated[
        list[str] | None,
        typer.Option(metavar="PASS", help="Print the IR before and after this pass, or `all`; repeatable."),
    ] = None,
    shared: Shared,
    as_json: AsJson = False,
) -> int:
    """Apply a pipeline to a network and show what each pass did; nothing is built.

    Exits 1 if a pass fails; its whole traceback is printed.
    """
    check_environment(shared["toolchain"])
    from passsearch import api

    document = api.apply(
        model,
        pipeline,
        print_ir=print_ir or (),
        **shared,
    )
    print_result(document, str(document), as_json=as_json)
    return NEGATIVE if document["failure"] else 0
