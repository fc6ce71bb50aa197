"""``compile``: one command without a search."""

from pathlib import Path
from typing import Annotated, Any

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
    Reference,
    Samples,
    Sizes,
    Target,
    Tolerance,
    ToolchainName,
    Trust,
    number_option,
)
from passsearch.cli.output import NEGATIVE, print_result, split_names
from passsearch.core import DEADLINE_S, SOURCE, read_inputs


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
    rivals: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Engines to compare with; by default those that are installed."),
    ] = None,
    only_if_faster: Annotated[
        bool, typer.Option("--only-if-faster", help="Exit 1 where another engine is faster.")
    ] = False,
    target: Target = None,
    toolchain: ToolchainName = None,
    tolerance: Tolerance = None,
    reference: Reference = SOURCE,
    inputs: Inputs = None,
    batch: Batch = None,
    function: Function = None,
    sizes: Sizes = None,
    keep_symbolic: KeepSymbolic = False,
    samples: Samples = None,
    deadline: Deadline = DEADLINE_S,
    memory: Memory = None,
    catalogs: Catalogs = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> int:
    """Compile a network by the recommended pipeline, check its outputs, and export it; nothing is searched."""
    types = read_inputs(inputs)
    check_environment(toolchain)
    from passsearch import api
    from passsearch.report import ProgressBar

    network: dict[str, Any] = {"inputs": types, "batch": batch, "function": function, "sizes": sizes}
    network |= {"keep_symbolic": keep_symbolic, "samples": samples, "target": target, "toolchain": toolchain}
    with ProgressBar() as progress:
        document = api.compile(
            model,
            to=to,
            pipeline=pipeline,
            seconds=seconds,
            rivals=split_names(rivals),
            tolerance=tolerance,
            reference=reference,
            deadline=deadline,
            memory=memory,
            catalogs=catalogs or (),
            trust=trust,
            progress=progress,
            **network,
        )
    print_result(document, str(document), as_json=as_json)
    return NEGATIVE if only_if_faster and document.is_slower else 0
