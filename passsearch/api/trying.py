"""``try_kernel``: a foreign kernel checked and timed in the place of one of a network."""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from passsearch.api.common import (
    Progress,
    network_session,
    open_evaluator,
    progress_callback,
    read_candidate,
    run_folder,
)
from passsearch.api.compiling import export_candidate
from passsearch.api.recorded_run import recorded_session
from passsearch.api.results import KernelTrial
from passsearch.core import (
    DEADLINE_S,
    Candidate,
    InputTypes,
    Limits,
    NetworkOptions,
    check_arguments,
    expand_home,
)
from passsearch.errors import UserError
from passsearch.evaluate import MeasurementPlans, Session, WorkerEvaluator
from passsearch.export import check_replaceable
from passsearch.frontends import call_form
from passsearch.measure import MIN_GAIN
from passsearch.results import KernelTrial as Document
from passsearch.search import analyze_network, recommended_sequences, with_prerequisites
from passsearch.store import read_result
from passsearch.studies import FASTER, SLOWER, KernelQuestion, Trial, try_foreign_kernel

SUFFIXES = (".py", ".json", ".c", ".cc", ".cpp")

_log = logging.getLogger(__name__)


@check_arguments
def try_kernel(
    file: str | Path | None,
    subject: object,
    *,
    kernel: str,
    to: str | Path | None = None,
    pipeline: str | None = None,
    inputs: InputTypes | None = None,
    batch: int | None = None,
    target: str | None = None,
    toolchain: str | None = None,
    tolerance: float | None = None,
    deadline: float = DEADLINE_S,
    memory: float | None = None,
    catalogs: Sequence[str | Path] = (),
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    progress: Progress | bool | None = None,
) -> KernelTrial:
    """Check a foreign kernel in the place of one of a network, time it there, and admit or refuse it.

    Args:
        file: A Python file with one function of TVMScript, TVM's JSON of one, or C or C++ with one function of
            pointers; ``None`` to learn how such a function has to begin. The file is run.
        subject: A finished run, whose winner is meant, or a network.
        kernel: Name of the kernel, as ``profile`` shows it.
        to: Folder for an export of the network with the kernel, if it is admitted and surely not slower.
        pipeline: Pipeline of a network; by default the recommended one. A run has its own.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        The trial as JSON; it prints as tables.

    Raises:
        UserError: There is no such file or kernel, or the toolchain's kernels cannot be replaced.
        EnvironmentFault: The machine fails, or there is no toolchain.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    content = None if file is None else _read(expand_home(file))
    run = run_folder(subject) if isinstance(subject, str | Path) else None
    with ExitStack() as stack:
        report = stack.enter_context(progress_callback(progress))
        report("reading the network", 0, 0)
        if run is None:
            session = network_session(subject, None, network, limits, plans)
        else:
            _refuse_options(run, pipeline, network)
            shared: Any = {"toolchain": toolchain, "catalogs": catalogs, "trust": trust, "plans": plans}
            document = read_result(run)
            session = recorded_session(document, run, limits=limits, **shared)
        _require_kernels(session)
        if to is not None:
            check_replaceable(expand_home(to))
        evaluator = stack.enter_context(open_evaluator(session, remember=False))
        if run is None:
            candidate = _of_network(evaluator, pipeline, trust=trust)
        else:
            candidate = Candidate.from_json(document["best"], "best")
        question = KernelQuestion(candidate, kernel)
        if content is not None and file is not None:
            question = _with_file(question, Path(file).name, content, evaluator.folder)
        trial = try_foreign_kernel(evaluator, question, progress=report)
        if to is not None:
            report("exporting", 0, 0)
            trial = _exported(evaluator, trial, expand_home(to))
    return KernelTrial(trial.document.to_json())


def _read(file: Path) -> bytes:
    if file.suffix not in SUFFIXES:
        raise UserError(f"`{file}` is no kernel; give a file {', '.join(SUFFIXES)}.")
    try:
        return file.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read the kernel `{file}`: {error.strerror}.") from error


def _refuse_options(run: Path, pipeline: str | None, options: NetworkOptions) -> None:
    allowed = {name: getattr(options, name) for name in ("toolchain", "catalogs", "trust")}
    if pipeline or replace(options, inputs=options.inputs or None) != NetworkOptions(**allowed):
        raise UserError(f"The run `{run}` has its own pipeline, inputs, target and tolerance; leave them out.")


def _require_kernels(session: Session) -> None:
    if not session.dialect.kernel_access:
        raise UserError(
            f"Kernels of toolchain `{session.toolchain.name}` ({session.dialect.name}) cannot be replaced; choose a "
            "toolchain of another dialect."
        )
    if session.device_kind != "cpu" or session.cannot_run_reason:
        raise UserError(f"Kernels are tried on CPUs that this machine has, and the target is `{session.target}`.")


def _of_network(evaluator: WorkerEvaluator, pipeline: str | None, *, trust: bool) -> Candidate:
    session = evaluator.session
    analysis = analyze_network(session, evaluator.network.summary)
    if pipeline is None:
        return recommended_sequences(session, analysis)[0]
    return with_prerequisites(session, analysis, read_candidate(session, pipeline, trust=trust))


def _with_file(question: KernelQuestion, name: str, content: bytes, folder: Path) -> KernelQuestion:
    """Return the question with a copy of the file, which stays as it is while the kernel is tried."""
    copy, digest = folder / "kernel" / name, hashlib.sha256(content).hexdigest()
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(content)
    return replace(question, file=copy, name=name, sha256=digest)


def _why_not(document: Document) -> str:
    """Return why a kernel is not exported; empty if it is faster, or certainly not slower by the least gain."""
    if not document.admitted:
        return "it is refused" if document.checks else "there is no kernel"
    if document.verdict in (FASTER, SLOWER):
        return "" if document.verdict == FASTER else "it is slower"
    interval = document.times.kernel.interval if document.times else None
    low = interval[0] if interval else None
    return "" if low is not None and low >= 1 / (1 + MIN_GAIN) else "the measurement is too uncertain"


def _exported(evaluator: WorkerEvaluator, trial: Trial, folder: Path) -> Trial:
    document = trial.document
    if why := _why_not(document):
        return replace(trial, document=replace(document, not_exported=why))
    choice = f"are those of the network as it was, and one puts `{document.tried.file}` in the place of a kernel"
    form = call_form(evaluator.session.model)
    written = export_candidate(evaluator, trial.candidate, choice, folder=folder, form=form, open_reason="")
    return replace(trial, document=replace(document, folder=str(written)))
