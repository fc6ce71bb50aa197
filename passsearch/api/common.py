"""The arguments that all API functions share, and the evaluator of functions that need no run folder."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from passsearch.catalog import bind_pipeline, find_folders, warn_of_conflicts
from passsearch.core import (
    DEADLINE_S,
    MAIN,
    SHARE,
    SOURCE,
    Calls,
    Candidate,
    ErrorBudget,
    InputTypes,
    Limits,
    NetworkOptions,
    Pipeline,
    check_arguments,
    expand_home,
    limit_or_inf,
    read_calls,
    read_inputs,
    require_trust,
)
from passsearch.dialects import dialect
from passsearch.dialects.case_inputs import read_samples
from passsearch.errors import UserError
from passsearch.evaluate import MeasurementPlans, Session, WorkerEvaluator, WorkerLimits, open_session
from passsearch.export import PIPELINE, read_pipeline
from passsearch.frontends import ModelFile, resolve
from passsearch.objectives import COMPILE_TIME, Objective
from passsearch.report import ProgressBar, in_ipython
from passsearch.search import named_candidate, session_settings
from passsearch.store import RESULT, RunFolder, limit_cache_hourly, open_fact_cache, read_result, run_folders
from passsearch.toolchain import cache_folder, cache_limit_bytes, get_toolchain, user_cache_folder
from passsearch.worker import ScratchFolder, machine_memory_bytes

Sizes: TypeAlias = str | Sequence[str]
"""Sizes of inputs with weights, as ``read_calls`` reads them."""

Progress: TypeAlias = Callable[[str, int, int], None]
"""Callback; gets the current step in words, the number of finished items and the number of all items."""

_log = logging.getLogger(__name__)


def network_session(
    model: object,
    example_inputs: object,
    options: NetworkOptions,
    limits: Limits | None = None,
    plans: MeasurementPlans | None = None,
    *,
    prepare: Callable[[Calls], Calls] = lambda calls: calls,
) -> Session:
    """Return the session of a network that the user names; ``prepare`` changes what of it is called.

    Raises:
        UserError: An option is impossible.
        EnvironmentFault: There is no toolchain.
    """
    return open_session(
        model_file(model, example_inputs, options, prepare),
        toolchain=options.toolchain,
        target=options.target,
        catalogs=catalog_paths(options.catalogs),
        tolerance=options.tolerance,
        limits=worker_limits(limits or Limits()),
        plans=plans,
        reference=options.reference,
    )


def model_file(
    model: object,
    example_inputs: object,
    options: NetworkOptions,
    prepare: Callable[[Calls], Calls] = lambda calls: calls,
) -> ModelFile:
    """Return the model file of a network, in a format that the toolchain imports where there is a choice."""
    inputs = read_inputs(options.inputs)
    calls = prepare(read_calls(options.function, options.sizes, inputs, keep_symbolic=options.keep_symbolic))
    file = None if options.samples is None else expand_home(options.samples).absolute()
    if file is not None:
        read_samples(file)  # a file that cannot be read is refused before the network is converted
    limit_cache_hourly(cache_folder(), limit_bytes=cache_limit_bytes())
    # The toolchain is looked up before the model is converted: without one, a conversion of minutes would be in vain.
    network = resolve(
        model,
        example_inputs=example_inputs,
        calls=calls,
        batch=options.batch,
        folder=cache_folder() / "models",
        formats=dialect(get_toolchain(options.toolchain).dialect).formats,
        trust=options.trust,
    )
    return replace(network, samples=file)


def worker_limits(limits: Limits) -> WorkerLimits:
    """Return limits in the units of workers.

    Raises:
        UserError: The machine has less memory.
    """
    memory, machine = limits.memory, machine_memory_bytes()
    if memory is not None and memory * 1e9 > machine:
        raise UserError(f"`memory` must be at most {machine / 1e9:.1f}, what this machine has in GB; got {memory:g}")
    memory_bytes = None if memory is None else int(memory * 1e9)
    return WorkerLimits(limits.deadline, memory_bytes, limit_or_inf(limits.timeout))


def catalog_paths(catalogs: Sequence[str | Path]) -> list[Path]:
    """Return catalog files as paths."""
    return [*map(expand_home, catalogs)]


@contextmanager
def open_evaluator(session: Session, *, folder: Path | None = None, remember: bool) -> Iterator[WorkerEvaluator]:
    """Open an evaluator without a search.

    Args:
        session: The session.
        folder: Folder for the log and the artifacts, so that an interrupted evaluation can be continued; a temporary
            folder by default.
        remember: True to use and extend the fact cache.

    Raises:
        UserError: The folder has facts of other settings, is in use, cannot be written, or has links.
    """
    with ExitStack() as stack:
        # Opened first, so that the folder is deleted last, after the workers that write to it have ended.
        if folder is None:
            folder = stack.enter_context(ScratchFolder())
        _log.debug("evaluating in %s, %s the fact cache", folder, "with" if remember else "without")
        opened = stack.enter_context(closing(RunFolder(folder, session_settings(session), is_further=True)))
        cache = stack.enter_context(open_fact_cache(session.cache_path)) if remember else None
        yield stack.enter_context(WorkerEvaluator(session, log=opened.log, folder=opened.artifacts, cache=cache))


@contextmanager
@check_arguments
def session(
    model: object,
    example_inputs: object = None,
    *,
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
    trust: bool = False,
    plans: MeasurementPlans | None = None,
    folder: str | Path | None = None,
    remember: bool = True,
) -> Iterator[WorkerEvaluator]:
    """Open a network for evaluation: ``with passsearch.session("zoo:resnet18") as evaluator``.

    The evaluator applies passes, builds states, verifies outputs and times artifacts; ``evaluator.session`` names the
    network, the compiler and the device. Its processes end with the block.

    Args:
        model: The network: see ``tune``.
        folder: Folder for the log and the artifacts. The same call with the same folder continues where the last one
            stopped. The folder of a run of ``tune`` on the same network has what that run has built and measured. A
            temporary folder by default.
        remember: True to use and extend the facts that runs share.

    Raises:
        UserError: An argument is impossible, or the folder has facts of other settings; the message says what to do.
        EnvironmentFault: There is no toolchain.
    """
    opened = network_session(model, example_inputs, NetworkOptions.of(locals()), Limits.of(locals()), plans)
    with open_evaluator(opened, folder=None if folder is None else Path(folder), remember=remember) as evaluator:
        yield evaluator


TUNED = "tuned"
"""Name of the winner of the network's last run in the folder where ``tune`` keeps runs."""


def read_candidate(session: Session, text: str, *, trust: bool, warn: bool = True) -> Candidate:
    """Return the candidate that a user names: a pipeline file, a run folder, a name, or a pipeline written out.

    Conflicts of a pipeline that a user wrote out are said in a notice.

    Args:
        session: Catalog and compiler.
        text: What the user names.
        trust: True to use the folders that a pipeline names.
        warn: False for a pipeline that a run recorded, which no user wrote.

    Raises:
        UserError: The text is none of these, the file's code is not trusted, or an argument of a pass is wrong.
    """
    if text.endswith(".json"):
        path = expand_home(text)
        file = read_pipeline(path)
        candidate = Candidate(file.pipeline, file.build, _file_name(path, session))
        require_trust(text, find_folders(candidate.pipeline), trust=trust)
    elif run := _named_run(text, session):
        candidate = _winner(run, session)
        require_trust(text, find_folders(candidate.pipeline), trust=trust)
    else:
        candidate = named_candidate(session, text)
        if warn and text not in _names(session):
            warn_of_conflicts(candidate.pipeline, session.catalog)
    # Checked and not replaced: arguments that the user left out stay out of the pipeline's name.
    bind_pipeline(candidate.pipeline, session.catalog)
    return candidate


def recorded_budget(session: Session, texts: Sequence[str]) -> ErrorBudget | None:
    """Return the error that the runs and pipeline files among these texts allow weights in fewer bits.

    It is the one with the largest bound; ``None`` where none of them narrows weights.
    """
    budgets: list[ErrorBudget] = []
    for text in texts:
        if text.endswith(".json"):
            file = read_pipeline(expand_home(text))
            budgets += [ErrorBudget(file.tolerance, bound=file.tolerance)] if file.pipeline.narrows else []
        elif run := _named_run(text, session):
            result = read_result(run)
            if Pipeline.parse(result["best"]["pipeline"]).narrows and result.get("deployment"):
                decision, bound = result.get("precision") or {}, result["deployment"]["tolerance"]
                # By classes where the run was judged so. There are no samples here, so the bound alone decides.
                unit = decision.get("unit", SHARE)
                budgets.append(ErrorBudget(bound if unit == SHARE else decision["budget"], unit, bound))
    return max(budgets, key=lambda budget: budget.bound, default=None)


def _file_name(path: Path, session: Session) -> str:
    """Return the name of a pipeline file's candidate: that of its folder if `export` named the file.

    A file that is called like another pipeline keeps its path, so that nobody takes it for that one.
    """
    name = path.absolute().parent.name if path.name == PIPELINE else path.stem
    return str(path) if name in _names(session) else name


def _names(session: Session) -> set[str]:
    return {*(baseline.name for baseline in session.dialect.baselines), *session.catalog.sequences}


def _named_run(text: str, session: Session) -> Path | None:
    """Return the run folder that a text names; ``None`` if there is none, or a pipeline has this name."""
    if text == TUNED:
        return _last_run(session)
    return None if text in _names(session) else run_folder(text)


def run_folder(path: str | Path) -> Path | None:
    """Return the run folder of this path; ``None`` if there is none."""
    folder = expand_home(path)
    try:
        return folder if str(path) and (folder / RESULT).is_file() else None
    except OSError:  # a pipeline that is longer than a file name may be
        return None


def _last_run(session: Session) -> Path:
    """Return the folder of the last finished run that ``tune`` keeps of this network, toolchain and target.

    The run is of the same sizes, where the file leaves them open, and of the same function.
    """
    toolchain = session.toolchain
    folders = run_folders(user_cache_folder() / "runs")
    for folder in sorted(folders, key=lambda folder: -(folder / "log.jsonl").stat().st_mtime):
        with suppress(UserError):  # a run without a result
            result = read_result(folder)
            found = result["toolchain"]["name"], result["target"], result.get("interrupted", False)
            if found == (toolchain.name, session.target, False) and is_of(result["model"], session.model):
                return folder
    raise UserError(
        f"`{TUNED}` is the winner of the last finished run on a network, and no run on {session.model.name} of these "
        f"sizes with the toolchain `{toolchain.name}` and this target is kept; run first: passsearch tune "
        f"{session.model.source} --toolchain {toolchain.name}"
    )


def is_of(tuned: Mapping[str, Any], model: ModelFile) -> bool:
    """Return whether a result is of this network, function and sizes, or of the file that this one is a copy of."""
    if model.original is not None and is_of(tuned, model.original):
        return True
    function = model.function or ("" if model.cases else MAIN)
    sizes = {name: list(kind.shape) for name, kind in model.inputs.items()}
    return bool(
        (tuned["sha256"], tuned.get("function", function)) == (model.sha256, function)
        and len(tuned.get("cases", ())) == len(model.cases)  # their types are complete after the import only
        and model.batch in (None, tuned.get("batch"))
        and sizes == {name: tuned.get("inputs", {}).get(name, {}).get("shape") for name in sizes}
    )


def _winner(run: Path, session: Session) -> Candidate:
    result = read_result(run)
    if (recorded := result["toolchain"]["dialect"]) != session.dialect.name:
        raise UserError(
            f"The run `{run}` is of the dialect `{recorded}`, and the toolchain of `{session.dialect.name}`."
        )
    best = result["best"]
    name = str(run) if run.name in _names(session) else run.name
    return Candidate.from_json(best, name)


def refuse_unreadable(objectives: Sequence[Objective], session: Session) -> None:
    """Refuse an objective that no sensor can read, before anything starts.

    Raises:
        UserError: With the reason.
    """
    for objective in objectives:
        name, obstacle = objective.name, session.cannot_run_reason
        if obstacle and objective.needs_run:
            instead = f"{COMPILE_TIME.name} can"
            raise UserError(f"Objective `{name}` cannot be read for `{session.target}`: {obstacle}; {instead}.")
        if session.model.cases and objective.sensor:
            raise UserError(f"Objective `{name}` cannot be read for several cases; tune each in a run of its own.")
        reason = session.sensors.unavailable.get(objective.sensor)
        if reason:
            raise UserError(f"Objective `{name}` cannot be read on `{session.device}`: {reason}.")


@contextmanager
def progress_callback(progress: Progress | bool | None) -> Iterator[Progress]:
    """Yield the callback of an API function: the user's own, the default display for ``True``, else one without effect.

    ``None`` is the default display in IPython and notebooks. The display ends with the block.
    """
    if progress is True or (progress is None and in_ipython()):
        with ProgressBar() as bar:
            yield bar
    else:
        yield progress or _ignore


def _ignore(_: str, __: int, ___: int) -> None:
    """A progress callback that does nothing."""
