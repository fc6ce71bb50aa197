"""``analyze``, ``tune`` and ``compare``: what is done to a network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from passsearch.cli.options import (
    AsJson,
    Batch,
    Catalogs,
    Deadline,
    Fresh,
    Inputs,
    Model,
    Target,
    Tolerance,
    ToolchainName,
)
from passsearch.cli.output import listed, note, show
from passsearch.cli.progress import ProgressBar
from passsearch.core import DEADLINE_S
from passsearch.errors import UserError

if TYPE_CHECKING:
    from passsearch.core import TensorType
    from passsearch.search.pass_selection import NetworkAnalysis

INTERRUPTED = 130


def analyze(
    model: Model,
    *,
    inputs: Inputs = None,
    batch: Batch = None,
    toolchain: ToolchainName = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Show a network's operators, features, classes with evidence, and candidate passes with reasons."""
    types = typed_inputs(inputs)
    require(toolchain)
    from passsearch import api
    from passsearch.report import analysis_text

    found = api.analyze(model, inputs=types, batch=batch, toolchain=toolchain, catalogs=catalogs or ())
    document = _analysis(model, found)
    show(document, analysis_text(document), as_json=as_json)


def tune(
    model: Model,
    *,
    target: Target = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="O", help="throughput, latency, compile_time, memory, power, energy; two: a Pareto front."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=0, metavar="N", help="Candidates to evaluate beyond the baselines.")] = 60,
    timeout: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="Wall time of the search; the confirmation comes on top."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder; the same command again continues it.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the sampler.")] = 0,
    confirm: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Fresh compiles that confirm the winner, in three to nine processes each."
        ),
    ] = 3,
    keep_throughput: Annotated[
        float, typer.Option(min=0, metavar="SHARE", help="Least share of the baseline's throughput to keep.")
    ] = 0.98,
    tolerance: Tolerance = None,
    deadline: Deadline = DEADLINE_S,
    inputs: Inputs = None,
    batch: Batch = None,
    toolchain: ToolchainName = None,
    passes: Annotated[
        str | None, typer.Option(metavar="A,B", help="Search these passes only, whatever the classes say.")
    ] = None,
    additional: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Passes to search that the catalog leaves to your intent."),
    ] = None,
    catalogs: Catalogs = None,
    sampler: Annotated[
        str, typer.Option(metavar="NAME", help="auto, graph, genetic, local, tpe, nsga2, random or states.")
    ] = "auto",
    fresh: Fresh = False,
    as_json: AsJson = False,
) -> int:
    """Search pass selection and order for a network on this device; the same command again continues."""
    types = typed_inputs(inputs)
    require(toolchain)
    from passsearch import api

    with ProgressBar() as progress:
        result = api.tune(
            model,
            inputs=types,
            batch=batch,
            objective=objective or "throughput",
            trials=trials,
            timeout=timeout,
            target=target,
            toolchain=toolchain,
            out=out,
            seed=seed,
            confirm=confirm,
            keep_throughput=keep_throughput,
            tolerance=tolerance,
            deadline=deadline,
            passes=listed(passes),
            additional=listed(additional) or (),
            catalogs=catalogs or (),
            sampler=sampler,
            remember=not fresh,
            progress=progress,
        )
    show(result.document, str(result), as_json=as_json)
    note(f"run folder: {result.run}")
    return INTERRUPTED if result.document["interrupted"] else 0


def compare(
    model: Model,
    *,
    pipelines: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Baselines, named sequences, pipeline files, with commas between; TOOLCHAIN:A for one of another TVM.",
        ),
    ] = "",
    pipeline: Annotated[
        list[str] | None,
        typer.Option(metavar="PASSES", help="A pipeline written out, `P,Q{k=1}`; repeatable."),
    ] = None,
    rounds: Annotated[int, typer.Option(min=2, metavar="N", help="Interleaved rounds in one process.")] = 6,
    processes: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="New processes; by default as many as the verdicts need.")
    ] = None,
    protocol: Annotated[
        str, typer.Option(metavar="P", help="paired, or cf22: the paper's 100 warm-ups and 1000 runs each.")
    ] = "paired",
    cache: Annotated[str, typer.Option(metavar="C", help="warm, or flushed before every run.")] = "warm",
    target: Target = None,
    tolerance: Tolerance = None,
    deadline: Deadline = DEADLINE_S,
    inputs: Inputs = None,
    batch: Batch = None,
    toolchain: ToolchainName = None,
    catalogs: Catalogs = None,
    as_json: AsJson = False,
) -> None:
    """Measure pipelines against each other, interleaved in several new processes."""
    wanted = [*(listed(pipelines) or ()), *(pipeline or ())]
    if not wanted:
        raise UserError("Nothing to compare; give for example: --pipelines O2,O3 --pipeline SimplifyInference,FuseOps")
    types = typed_inputs(inputs)
    require(toolchain)
    from passsearch import api
    from passsearch.report import comparison_text

    with ProgressBar() as progress:
        document = api.compare(
            model,
            wanted,
            inputs=types,
            batch=batch,
            target=target,
            toolchain=toolchain,
            tolerance=tolerance,
            deadline=deadline,
            rounds=rounds,
            processes=processes,
            protocol=protocol,
            cache=cache,
            catalogs=catalogs or (),
            progress=progress,
        )
    show(document, comparison_text(document), as_json=as_json)


def typed_inputs(inputs: Sequence[str] | None) -> "dict[str, TensorType]":
    """What ``--input`` says, by name."""
    from passsearch.core import parse_input

    return dict(parse_input(text) for text in inputs or ())


def require(toolchain: str | None) -> None:
    """Say what the machine lacks before any work is done."""
    from passsearch.toolchain import get_toolchain, require_c_compiler

    require_c_compiler()
    get_toolchain(toolchain)


def _analysis(model: str, found: "NetworkAnalysis") -> Mapping[str, Any]:
    from collections import Counter

    kept, dropped = found.selection.kept, found.selection.dropped
    return {
        "model": model,
        "operators": dict(Counter(operator.kind for operator in found.summary.operators).most_common()),
        "fingerprint": found.fingerprint.to_json(),
        "classes": [each.to_json() for each in found.classes],
        "passes": [{"name": ruling.entry.name, "reason": ruling.reason} for ruling in kept],
        "dropped": [{"name": ruling.entry.name, "reason": ruling.reason} for ruling in dropped],
    }
