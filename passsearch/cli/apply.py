"""``apply``: a pipeline pass by pass, with the IR before and after."""

from typing import Annotated

import typer

from passsearch.cli.network import check_environment
from passsearch.cli.options import (
    AsJson,
    Batch,
    Catalogs,
    Deadline,
    Function,
    Inputs,
    KeepSymbolic,
    Memory,
    Model,
    Sizes,
    Target,
    ToolchainName,
    Trust,
)
from passsearch.cli.output import NEGATIVE, print_result
from passsearch.core import DEADLINE_S, read_inputs


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
    target: Target = None,
    toolchain: ToolchainName = None,
    inputs: Inputs = None,
    batch: Batch = None,
    function: Function = None,
    sizes: Sizes = None,
    keep_symbolic: KeepSymbolic = False,
    deadline: Deadline = DEADLINE_S,
    memory: Memory = None,
    catalogs: Catalogs = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Apply a pipeline to a network and show what each pass did; nothing is built.

    Exits 1 if a pass fails; its whole traceback is printed.
    """
    types = read_inputs(inputs)
    check_environment(toolchain)
    from passsearch import api

    document = api.apply(
        model,
        pipeline,
        print_ir=print_ir or (),
        inputs=types,
        batch=batch,
        function=function,
        sizes=sizes,
        keep_symbolic=keep_symbolic,
        target=target,
        toolchain=toolchain,
        deadline=deadline,
        memory=memory,
        catalogs=catalogs or (),
        trust=trust,
    )
    print_result(document, str(document), as_json=as_json)
    return NEGATIVE if document["failure"] else 0
