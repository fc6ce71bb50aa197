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
    open_evaluator,
    progress_callback,
    read_candidate,
    run_folder,
    worker_limits,
)
from passsearch.api.common import session as network_session
from passsearch.api.recorded_run import recorded_session
from passsearch.api.results import Profile
from passsearch.core import DEADLINE_S, SOURCE, Candidate, InputTypes, check_arguments
from passsearch.errors import EnvironmentFault, UserError
from passsearch.evaluate import MeasurementPlans, Session, WorkerEvaluator, WorkerLimits
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
        inputs: Shape and dtype by input name.
        batch: Size of a symbolic first dimension.
        function: The function, or functions with weights: see ``tune``.
        sizes: Sizes of open inputs with weights: see ``tune``.
        keep_symbolic: True to compile one function whose sizes stay open, and to measure it at ``sizes``.
        samples: NumPy file (``.npz``) with the inputs to check and to time: see ``tune``.
        target: TVM's target; the host CPU by default.
        toolchain: Name of the toolchain; the first there is, or the run's own.
        tolerance: Largest deviation of outputs of pipelines with a pass that may change numerics.
        reference: ``source`` or ``import`` for a network: see ``tune``. A run has its own.
        deadline: Seconds one request to a worker may take.
        memory: Gigabytes that one compiler process may use.
        catalogs: YAML files with the user's own passes.
        energy: True to read the energy of every kernel, where the device has a meter. A kernel runs alone for some
            seconds for that.
        trust: True to run code that the network's file or the run contains.
        plans: Plans by which artifacts are timed.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.
            It gets the current step, the number of finished pipelines and the number of all.

    Returns:
        The profile as JSON; it prints as tables.

    Raises:
        UserError: A pipeline fails.
        EnvironmentFault: The machine fails, the runtime does not tell kernels apart, or there is no toolchain.
    """
    run = run_folder(subject) if isinstance(subject, str | Path) else None
    common: dict[str, Any] = {"toolchain": toolchain, "catalogs": catalogs, "trust": trust, "plans": plans}
    with progress_callback(progress) as report:
        if run is not None:
            calls = (function, sizes, keep_symbolic or None, samples)
            checks = (tolerance, None if reference == SOURCE else reference)
            _refuse_network_options(run, example_inputs, inputs or None, batch, *calls, target, *checks)
            opened = _open_run(run, pipelines, limits=worker_limits(deadline, memory), **common)
        else:
            network: dict[str, Any] = {"inputs": inputs, "batch": batch, "target": target, "tolerance": tolerance}
            network |= {"function": function, "sizes": sizes, "keep_symbolic": keep_symbolic, "samples": samples}
            network |= {"deadline": deadline, "memory": memory, "reference": reference}
            opened = _open_network(subject, example_inputs, pipelines, **network, **common)
        with opened as (evaluator, candidates):
            peaks, reason = _peaks(evaluator.session)
            profiled = profile_candidates(
                evaluator, candidates, peaks=peaks, peaks_reason=reason, energy=energy, progress=report
            )
            return Profile(profiled.to_json())


def _refuse_network_options(run: Path, *options: object) -> None:
    if any(option is not None for option in options):
        raise UserError(f"The run `{run}` has its own inputs, target, tolerance and reference; leave them out.")


@contextmanager
def _open_run(
    run: Path, pipelines: Sequence[str], *, limits: WorkerLimits, **common: Any
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
    subject: object, example_inputs: object, pipelines: Sequence[str], **options: Any
) -> Iterator[tuple[WorkerEvaluator, list[Candidate]]]:
    with network_session(subject, example_inputs, remember=False, **options) as evaluator:
        names = pipelines or (evaluator.session.dialect.baseline.name,)
        yield evaluator, [_named(evaluator, name, trust=options["trust"]) for name in names]


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
