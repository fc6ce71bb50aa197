"""``analyze`` and ``compare``: questions about a network that need no search."""

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from passsearch.api.common import (
    Progress,
    Sizes,
    network_session,
    open_evaluator,
    progress_callback,
    read_candidate,
    recorded_budget,
)
from passsearch.api.engine_request import QUALIFIED
from passsearch.api.recommending import analyzed, network_recommendation
from passsearch.api.results import Analysis, Comparison
from passsearch.core import DEADLINE_S, SOURCE, InputTypes, Limits, NetworkOptions, check_arguments
from passsearch.errors import UserError
from passsearch.evaluate import MeasurementPlans, Session
from passsearch.studies import (
    CACHES,
    CF22,
    PAIRED,
    PROTOCOLS,
    ComparisonOptions,
    Side,
    compare_candidates,
)
from passsearch.toolchain import get_toolchain

_log = logging.getLogger(__name__)


@check_arguments
def analyze(
    model: object,
    example_inputs: object = None,
    *,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    toolchain: str | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    progress: Progress | bool | None = None,
) -> Analysis:
    """Return operators, features, architecture classes with evidence, and candidate passes with reasons.

    The graph of a network that this toolchain has imported before comes from a file in the cache folder.

    Args:
        model: The network: see ``tune``.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
    """
    network = NetworkOptions.of(locals())
    with progress_callback(progress) as report:
        report("reading the network", 0, 2)
        opened = network_session(model, example_inputs, network)
        analysis = analyzed(opened, report)
    advice = network_recommendation(opened, analysis, seconds={})
    return Analysis(analysis.summary, analysis.fingerprint, analysis.classes, analysis.selection, advice)


@check_arguments
def compare(
    model: object,
    pipelines: Sequence[str],
    *,
    example_inputs: object = None,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    function: str | None = None,
    sizes: Sizes | None = None,
    keep_symbolic: bool = False,
    samples: str | Path | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    tolerance: float | None = None,
    reference: str = SOURCE,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    rounds: int = 6,
    processes: int | None = None,
    protocol: str = PAIRED,
    cache: str = "warm",
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    folder: str | Path | None = None,
    progress: Progress | bool | None = None,
) -> Comparison:
    """Measure pipelines against each other, interleaved in several processes.

    Args:
        model: The network: see ``tune``.
        pipelines: Names, pipeline files, or pipelines written out. ``TOOLCHAIN:PIPELINE`` is built by that toolchain,
            to compare compilers. The baseline is the first that has a baseline's name, else the default of the first
            toolchain.
        rounds: Rounds of each process.
        processes: Number of processes; as many as the verdicts need by default.
        protocol: ``paired``, or ``cf22``: each pipeline runs by itself 1000 times as in the paper. Runs in a row share
            every drift of the machine, so that protocol gives no verdict.
        cache: ``warm``, or ``flushed``: the processor's caches hold nothing of the network when a run begins.
        folder: Folder for what is measured. The same call with the same folder continues where the last one stopped. A
            temporary folder by default.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step, the number of finished pipelines and the number of all.

    Returns:
        The comparison as JSON, with a row for each pipeline and a verdict for each pair; it prints as a table.

    Raises:
        UserError: An argument is impossible; the message says what to do.
        EnvironmentFault: There is no toolchain.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    options = ComparisonOptions(rounds, processes, protocol, cache)
    by_toolchain = _by_toolchain(pipelines, toolchain)
    _check_options(options, toolchains=len(by_toolchain))
    with ExitStack() as stack:
        report = stack.enter_context(progress_callback(progress))
        sides = []
        for name, texts in by_toolchain.items():
            side_session = network_session(model, example_inputs, replace(network, toolchain=name), limits, plans)
            _check_device(side_session, options)
            # Before this toolchain's compiler starts, so that a mistyped name costs no import.
            candidates = [read_candidate(side_session, text, trust=trust) for text in texts]
            if tolerance is None and (budget := recorded_budget(side_session, texts)):
                side_session = replace(side_session, budget=budget)  # what the runs were judged by
                _log.info(
                    "weights in fewer bits may change outputs by %s of the largest, as in the run", f"{budget.bound:g}"
                )
            _log.info("comparing %s", ", ".join(texts) or "the baseline with itself")
            # Without the fact cache: a comparison rests on its own compiles and its own samples.
            own = None if folder is None else Path(folder) / side_session.toolchain.name
            evaluator = stack.enter_context(open_evaluator(side_session, folder=own, remember=False))
            sides.append(Side(evaluator, candidates))
        return Comparison(compare_candidates(sides, options, progress=report).to_json())


def _check_options(options: ComparisonOptions, *, toolchains: int) -> None:
    choices = (("protocol", options.protocol, PROTOCOLS), ("cache state", options.cache, CACHES))
    for what, value, allowed in choices:
        if value not in allowed:
            raise UserError(f"Unknown {what} `{value}`; choose from: {', '.join(allowed)}.")
    if options.protocol == CF22 and options.cache != "warm":
        raise UserError("Protocol `cf22` measures with warm caches, as the paper did; leave the cache state out.")
    if options.protocol == CF22 and toolchains > 1:
        raise UserError("Protocol `cf22` runs all pipelines in one process, so it takes those of one toolchain.")


def _check_device(session: Session, options: ComparisonOptions) -> None:
    if session.cannot_run_reason:
        raise UserError(f"Nothing can be timed for `{session.target}`: {session.cannot_run_reason}.")
    if options.cache != "warm" and session.device != "cpu":
        raise UserError(f"Caches of `{session.target}` cannot be flushed; leave the cache state out.")
    if options.cache != "warm" and session.model.cases:
        # The cases run in turn with the same weights, so only the first would find empty caches.
        raise UserError("Caches are flushed for one case only; leave the cache state out, or give one case.")


def _by_toolchain(pipelines: Sequence[str], default: str | None) -> dict[str | None, list[str]]:
    """Return the pipelines by the toolchain that builds them, in the order the toolchains are first named.

    Args:
        pipelines: ``TOOLCHAIN:PIPELINE``, which comes back without its toolchain, or ``PIPELINE`` alone.
        default: Toolchain of pipelines that name none; the key is ``None`` if it is open and no pipeline names one.
    """
    matches = [QUALIFIED.match(text) for text in pipelines]
    # Without any toolchain's name the default may stay open, so that the model can choose it.
    if not any(matches):
        return {default: list(pipelines)}
    default = get_toolchain(default).name
    groups: dict[str | None, list[str]] = {}
    for text, match in zip(pipelines, matches, strict=True):
        name, pipeline = (match[1], match[2]) if match else (default, text)
        groups.setdefault(name, []).append(pipeline)
    return groups
