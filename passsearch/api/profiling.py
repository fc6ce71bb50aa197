"""``profile``: the time of every kernel in its place, for a run's baseline and winner or for named pipelines."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.api.common import (
    Progress,
    Sizes,
    network_session,
    open_evaluator,
    progress_callback,
    read_candidate,
    run_folder,
)
from passsearch.api.recorded_run import recorded_session
from passsearch.api.results import Profile
from passsearch.core import DEADLINE_S, SOURCE, Candidate, InputTypes, Limits, NetworkOptions, check_arguments
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import MeasurementPlans, Session, WorkerEvaluator
from passsearch.search import analyze_network, with_prerequisites
from passsearch.store import read_result
from passsearch.studies import profile_candidates
from passsearch.toolchain import cache_folder
from passsearch.worker import Peaks, best_peaks

WINNER = "best"

_log = logging.getLogger(__name__)


@check_arguments
def profile(
    subject: object,
    pipelines: Sequence[str] = (),
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
    catalogs: Sequence[str | Path] = (),
    energy: bool = False,
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    progress: Progress | bool | None = None,
) -> Profile:
    """Time every kernel where the network calls it (on a GPU alone), and say what bounds it.

    The networks run in turns in several processes; the times are those of the fastest inference. Kernels are grouped by
    the repeated blocks of the network, and compared with what this processor can do at most.

    Args:
        subject: A finished run folder, or a network.
        pipelines: Names, pipeline files, or pipelines written out. By default a run's baseline and its winner, which is
            called ``best`` here; for a network, the baseline of the toolchain.
        example_inputs: The arguments of a network: see ``tune``. A run has its own.
        energy: True to read the energy of every kernel, where the device has a meter. A kernel runs alone for some
            seconds for that.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step, the number of finished pipelines and the number of all.

    Returns:
        The profile as JSON; it prints as tables.

    Raises:
        UserError: A pipeline fails.
        EnvironmentFault: The machine fails, the runtime does not tell kernels apart, or there is no toolchain.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    run = run_folder(subject) if isinstance(subject, str | Path) else None
    common: dict[str, Any] = {"toolchain": toolchain, "catalogs": catalogs, "trust": trust, "plans": plans}
    with progress_callback(progress) as report:
        if run is not None:
            _refuse_network_options(run, example_inputs, network)
            opened = _open_run(run, pipelines, limits, **common)
        else:
            opened = _open_network(network_session(subject, example_inputs, network, limits, plans), pipelines, network)
        with opened as (evaluator, candidates):
            peaks, reason = _peaks(evaluator.session)
            profiled = profile_candidates(
                evaluator, candidates, peaks=peaks, peaks_reason=reason, energy=energy, progress=report
            )
            return Profile(profiled.to_json())


def _refuse_network_options(run: Path, example_inputs: object, options: NetworkOptions) -> None:
    allowed = {name: getattr(options, name) for name in ("toolchain", "catalogs", "trust")}
    if example_inputs is not None or replace(options, inputs=options.inputs or None) != NetworkOptions(**allowed):
        raise UserError(f"The run `{run}` has its own inputs, target, tolerance and reference; leave them out.")


@contextmanager
def _open_run(
    run: Path, pipelines: Sequence[str], limits: Limits, **common: Any
) -> Iterator[tuple[WorkerEvaluator, list[Candidate]]]:
    document = read_result(run)
    session = recorded_session(document, run, limits=limits, **common)
    with open_evaluator(session, remember=False) as evaluator:
        names = pipelines or (session.dialect.baseline.name, WINNER)
        yield evaluator, [_run_candidate(evaluator, document, name, trust=common["trust"]) for name in names]


def _run_candidate(evaluator: WorkerEvaluator, document: Mapping[str, Any], name: str, *, trust: bool) -> Candidate:
    if name != WINNER:
        return _named(evaluator, name, trust=trust)
    best = document["best"]
    return Candidate.from_json(best, WINNER)


@contextmanager
def _open_network(
    session: Session, pipelines: Sequence[str], options: NetworkOptions
) -> Iterator[tuple[WorkerEvaluator, list[Candidate]]]:
    with open_evaluator(session, remember=False) as evaluator:
        names = pipelines or (session.dialect.baseline.name,)
        yield evaluator, [_named(evaluator, name, trust=options.trust) for name in names]


def _named(evaluator: WorkerEvaluator, name: str, *, trust: bool) -> Candidate:
    """Return a named candidate as ``compare`` builds it."""
    analysis = analyze_network(evaluator.session, evaluator.network.summary)
    candidate = with_prerequisites(evaluator.session, analysis, read_candidate(evaluator.session, name, trust=trust))
    return candidate if candidate.name else replace(candidate, name=name)


def _peaks(session: Session) -> tuple[Peaks | None, str]:
    """Return the peaks of the device, or why there are none."""
    if session.device != "cpu":
        return None, f"peaks are measured on processors only, not on `{session.device}`"
    device = {key: session.sensors.device[key] for key in ("name", "cores") if key in session.sensors.device}
    try:
        return best_peaks(session.threads, device, cache_folder() / "peaks"), ""
    except EnvironmentFault as error:
        return None, str(error)
