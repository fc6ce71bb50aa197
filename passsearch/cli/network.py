"""``analyze``, ``tune`` and ``compare``: commands on a network."""

from pathlib import Path
from typing import Annotated

import typer

from passsearch.cli.options import (
    ALL,
    NETWORK,
    AsJson,
    Budget,
    Fresh,
    Labels,
    Model,
    Precision,
    ReferenceOfBits,
    RivalNames,
    Shared,
    number_option,
    share_options,
)
from passsearch.cli.output import UNCONFIRMED_STATUS, UNDECIDED_STATUS, print_note, print_result, split_names
from passsearch.core import (
    FLOAT32,
    LEAST_GAIN,
    USUAL_REPETITIONS,
    USUAL_TRIALS,
    folder_bytes,
)
from passsearch.errors import UserError
from passsearch.objectives import OBJECTIVES, THROUGHPUT, UNCONFIRMED, UNDECIDED, verdict_outcome

_NAMES = [objective.name for objective in OBJECTIVES]

INTERRUPTED = 130
SLOW_S = 3.0
"""Time after which a command that is usually quick shows what it is doing, in seconds."""


@share_options("toolchain", *NETWORK, "catalogs", "trust")
def analyze(
    model: Model,
    *,
    show_all: Annotated[bool, typer.Option("--all", help="Also list the passes that are never searched.")] = False,
    shared: Shared,
    as_json: AsJson = False,
) -> None:
    """Show a network's operators, classes and candidate passes.

    Every class comes with its evidence, and every pass with the reason why it is searched or not.
    """
    from passsearch import api
    from passsearch.report import ProgressBar, analysis_text

    with ProgressBar(delay_s=SLOW_S) as progress:
        analysis = api.analyze(
            model,
            **shared,
            progress=progress,
        )
    document = {"model": model, **analysis.to_json()}
    print_result(document, analysis_text(document, has_all=show_all), as_json=as_json)


def zoo(*, as_json: AsJson = False) -> None:
    """List the built-in networks, which `zoo:NAME` or `zoo:NAME@BATCH` names."""
    from passsearch.frontends.zoo import descriptions
    from passsearch.report import zoo_text

    rows = descriptions()
    print_result({"networks": [dict(row) for row in rows]}, zoo_text(rows), as_json=as_json)


@share_options(*ALL)
def tune(
    model: Model,
    *,
    shared: Shared,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OBJECTIVE",
            help=f"{', '.join(_NAMES[:-1])} or {_NAMES[-1]}; two, by a comma, for a Pareto front.",
        ),
    ] = None,
    trials: Annotated[
        int, number_option("trials", metavar="N", text="Number of candidates to evaluate besides the baselines.")
    ] = USUAL_TRIALS,
    timeout: Annotated[
        float | None,
        number_option("timeout", metavar="SECONDS", text="Time limit of the run, confirmation included."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder; the same command again continues the run.")
    ] = None,
    seed: Annotated[int, number_option("seed", metavar="N", text="Seed of the sampler.")] = 0,
    confirm: Annotated[
        int,
        number_option(
            "confirm",
            metavar="N",
            text="Fewest fresh compiles that confirm the winner; more if unclear.",
        ),
    ] = USUAL_REPETITIONS,
    keep_throughput: Annotated[
        float,
        number_option(
            "keep_throughput",
            metavar="SHARE",
            text="Share of the baseline's throughput that a winner of another objective must keep.",
        ),
    ] = 0.98,
    least_gain: Annotated[
        float,
        number_option(
            "least_gain",
            metavar="SHARE",
            text="Search only where that can add this share to the recommended sequence.",
        ),
    ] = LEAST_GAIN,
    passes: Annotated[
        str | None, typer.Option(metavar="A,B", help="Search only these passes, whatever the network's classes.")
    ] = None,
    additional: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Also search these passes, which the catalog uses only on request."),
    ] = None,
    precision: Precision = FLOAT32,
    budget: Budget = None,
    labels: Labels = None,
    same_bits: ReferenceOfBits = None,
    sampler: Annotated[
        str,
        typer.Option(metavar="NAME", help="Search strategy: auto, graph, nsga2 or random."),
    ] = "auto",
    fresh: Fresh = False,
    rivals: RivalNames = None,
    as_json: AsJson = False,
) -> int:
    """Search the best selection and order of passes for a network.

    Shows the winner beside the baselines. The same command again continues the run.
    """
    check_environment(shared["toolchain"])
    # After the checks: the API loads optuna and scipy, and a mistake should be answered before that.
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        result = api.tune(
            model,
            objective=objective or THROUGHPUT.name,
            trials=trials,
            timeout=timeout,
            out=out,
            seed=seed,
            confirm=confirm,
            keep_throughput=keep_throughput,
            least_gain=least_gain,
            passes=split_names(passes),
            additional=split_names(additional) or (),
            **shared,
            precision=precision,
            budget=budget,
            labels=labels,
            same_bits=same_bits,
            sampler=sampler,
            remember=not fresh,
            rivals=split_names(rivals),
            progress=progress,
        )
    print_result(result.document, str(result), as_json=as_json)
    print_note(f"run folder: {result.run} ({folder_bytes(result.run) / 1e6:.1f} MB)")
    # An interrupted search has a result so far, printed above; the exit status says that it is not the final one.
    if result.document["interrupted"]:
        return INTERRUPTED
    from passsearch.results import Verdict

    verdict = Verdict.from_json(result.document["verdict"])
    outcome = verdict_outcome(verdict)
    # Without a confirmation by the user's own wish (`--confirm 0`), nothing is missing.
    is_missing = outcome == UNCONFIRMED and confirm > 0 and verdict.failure is not None
    return UNDECIDED_STATUS if outcome == UNDECIDED else UNCONFIRMED_STATUS if is_missing else 0


@share_options(*ALL)
def compare(
    model: Model,
    *,
    pipelines: Annotated[
        str,
        typer.Option(
            metavar="A,B",
            help="Baselines, named sequences or pipeline files, by commas; TOOLCHAIN:A uses another toolchain.",
        ),
    ] = "",
    pipeline: Annotated[
        list[str] | None,
        typer.Option(metavar="PASSES", help="A pipeline as text, `P,Q{k=1}`; repeatable."),
    ] = None,
    rounds: Annotated[
        int, number_option("rounds", metavar="N", text="Rounds in one process; every round runs all pipelines in turn.")
    ] = 6,
    processes: Annotated[
        int | None,
        number_option("processes", metavar="N", text="New processes; by default as many as the verdicts need."),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="paired, or cf22: 100 warm-up runs and 1000 runs each, as in the CF'22 paper."
        ),
    ] = "paired",
    cache: Annotated[
        str, typer.Option(metavar="STATE", help="CPU caches: warm, or flushed before every run.")
    ] = "warm",
    shared: Shared,
    as_json: AsJson = False,
) -> None:
    """Measure several pipelines side by side.

    They run in turn in several new processes, so that all of them meet the same state of the machine.
    """
    requests = [*(split_names(pipelines) or ()), *(pipeline or ())]
    if not requests:
        raise UserError("Nothing to compare; give for example: --pipelines O2,O3 --pipeline SimplifyInference,FuseOps")
    check_environment(shared["toolchain"])
    from passsearch import api
    from passsearch.report import ProgressBar

    with ProgressBar() as progress:
        document = api.compare(
            model,
            requests,
            rounds=rounds,
            processes=processes,
            protocol=protocol,
            cache=cache,
            **shared,
            progress=progress,
        )
    print_result(document, str(document), as_json=as_json)


def check_environment(toolchain: str | None) -> None:
    """Raise an error if the machine lacks a C compiler or the toolchain, before any work is done."""
    from passsearch.toolchain import get_toolchain, require_c_compiler

    require_c_compiler()
    get_toolchain(toolchain)
