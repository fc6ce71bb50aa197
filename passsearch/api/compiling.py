"""``compile``: the recommended pipeline of a network, built, checked against its source and exported."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from passsearch.api.common import Progress, Sizes, network_session, open_evaluator, progress_callback, read_candidate
from passsearch.api.compiled_function import own_toolchain
from passsearch.api.compiled_network import CompiledNetwork
from passsearch.api.narrow_weights import checked_budget, refuse_narrow_weights
from passsearch.api.narrowing import export_narrowed, refuse_narrow_pipeline
from passsearch.api.rivals import Rivals
from passsearch.api.sizes import compile_sizes, read_sizes, size_record
from passsearch.api.tf32 import refuse_float32, session_in_tf32
from passsearch.core import (
    DEADLINE_S,
    FLOAT32,
    RECOMMENDED,
    SOURCE,
    TF32,
    Calls,
    Candidate,
    Failure,
    InputTypes,
    Limits,
    NetworkOptions,
    TimeLimit,
    check_arguments,
    expand_home,
    timestamp,
)
from passsearch.dialects import dialect
from passsearch.errors import PassSearchError, UserError
from passsearch.evaluate import Built, Session, WorkerEvaluator
from passsearch.export import COMPILATION, SCRIPT, Deployment, check_replaceable, write_deployment
from passsearch.frontends import CallForm, call_form
from passsearch.measure import Ratio, one_process_ratio
from passsearch.results import (
    ChosenPipeline,
    Compilation,
    Reference,
    RivalComparison,
    StatedFailure,
    TriedPipeline,
)
from passsearch.search import (
    NetworkAnalysis,
    analyze_network,
    precision_request,
    recommended_sequences,
    with_prerequisites,
)
from passsearch.store import NETWORK, write_json
from passsearch.worker import ScratchFolder, run_script

SCHEMA = "passsearch-compile/1"

DEPLOYMENT = "deploy"
"""Name of the deployment in a temporary folder."""

RIVALS_S = 120.0
"""Time limit of the comparison with other engines: four processes of three engines take 100 s for half a second."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Tried:
    """A pipeline that was built, with its throughput as a multiple of the recommended one's where both were timed."""

    candidate: Candidate
    built: Built | Failure
    ratio: Ratio | None = None


@check_arguments
def compile(  # noqa: A001 -- the name that users of torch.compile expect
    model: object,
    example_inputs: object = None,
    *,
    to: str | Path | None = None,
    pipeline: str = RECOMMENDED,
    seconds: float = 0.0,
    rivals: Sequence[str] | None = None,
    precision: str = FLOAT32,
    budget: float | str | None = None,
    labels: str | Path | None = None,
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
    progress: Progress | bool | None = None,
) -> CompiledNetwork:
    """Compile a network without a search: build the recommended pipeline, check its outputs, export it.

    What it returns is called like the network: ``fast = passsearch.compile(module, example)``, ``fast(image)``. It is
    compiled in a process of its own, so that a compiler that crashes does not end the caller's.

    Args:
        model: The network: see ``tune``.
        to: The folder to write: script, network and build, as ``export`` writes them. A temporary one by default,
            which is deleted with the result.
        pipeline: ``recommended``, or a pipeline as ``compare`` takes it.
        seconds: Time for building and timing other sequences that the recommendation may be worse than; the fastest is
            taken. 0 builds the recommended one only.
        rivals: Engines that the result is compared with in the same rounds, for two minutes at most; those that are
            installed by default.
        precision: What has fewer bits: see ``tune``.
        budget: What that may change: see ``tune``.
        labels: The class of each sample, for a budget of accuracy: see ``tune``.
        progress: ``True`` for a display on standard error (the default in IPython and notebooks), or a callback.

    Returns:
        A function that says what was built, why, and how fast it is beside the rivals.

    Raises:
        UserError: No pipeline builds, or the import computes something else than the network's own framework.
        EnvironmentFault: There is no toolchain, or the machine fails.
    """
    network, limits = NetworkOptions.of(locals()), Limits.of(locals())
    error_budget = checked_budget(precision, budget, labels, samples=samples)
    with ExitStack() as on_error:
        scratch = None
        if to is None:
            scratch = ScratchFolder()
            on_error.callback(scratch.close)
            # What is compiled by this interpreter's TVM can be called here.
            network, to = replace(network, toolchain=toolchain or _own_toolchain()), scratch.path / DEPLOYMENT
        folder = expand_home(to)
        check_replaceable(folder)
        with progress_callback(progress) as report:
            start = monotonic()
            report("importing the network", 0, 0)

            def attempt(prepare: Callable[[Calls], Calls], open_reason: str) -> tuple[Compilation, CallForm]:
                session = network_session(model, example_inputs, network, limits, prepare=prepare)
                if error_budget is not None:
                    session = replace(session, budget=error_budget)
                    refuse_narrow_weights(session)
                session = session_in_tf32(session) if precision == TF32 else session
                # A name that does not exist is refused before the compiler imports the network.
                named = None if pipeline == RECOMMENDED else read_candidate(session, pipeline, trust=trust)
                if error_budget is not None:
                    refuse_narrow_pipeline(named)
                if precision == TF32:
                    refuse_float32(named)
                check_replaceable(folder, network=session.model.sha256)
                times: Any = {"seconds": seconds, "start": start, "report": report}
                return _compile(session, named, folder, rivals=rivals, open_reason=open_reason, **times)

            compilation, form = compile_sizes(network, attempt)
        on_error.pop_all()
    return CompiledNetwork(compilation.to_json(), scratch=scratch, form=form)


def _own_toolchain() -> str | None:
    """Return the name of this interpreter's toolchain, whose compiled files it loads; ``None`` if it has none."""
    own = own_toolchain()
    return own.name if own is not None and dialect(own.dialect).opener else None


def _compile(
    session: Session,
    named: Candidate | None,
    folder: Path,
    *,
    rivals: Sequence[str] | None,
    open_reason: str,
    seconds: float,
    start: float,
    report: Progress,
) -> tuple[Compilation, CallForm]:
    """Build, check, export and time a network.

    Args:
        session: The network.
        named: The pipeline that the user names; ``None`` for those that are recommended.
        folder: The folder of the deployment.
        rivals: See ``compile``.
        open_reason: Why a network of several sizes has no function of open sizes; empty if it has one.
        seconds: See ``compile``.
        start: Time at which the call began.
        report: Progress callback.
    """
    with open_evaluator(session, remember=False) as evaluator:
        beside, request = Rivals.find(evaluator.session, rivals), precision_request(evaluator.session, evaluator)
        analysis = analyze_network(evaluator.session, evaluator.network.summary)
        candidates = _candidates(evaluator, analysis, named)
        imported_s = monotonic() - start
        tried = list(_try(evaluator, candidates, time_limit=TimeLimit(seconds), report=report))
        candidate, built = _best(tried)
        form, decision = call_form(evaluator.session.model), None
        choice = _choice(candidate, tried if named is None else [])
        export = partial(export_candidate, evaluator, folder=folder, form=form, open_reason=open_reason)
        built_s = monotonic() - start - imported_s
        if request is None:
            report("exporting", 0, 0)
            deployed = export(candidate, choice)
        else:
            report("deciding on the precision of every layer", 0, 0)
            lead = partial(_lead, evaluator, first=built)
            candidate, built, decision, deployed = export_narrowed(
                evaluator, request, candidate, built, choice=choice, lead=lead, export=export
            )
        rest_s = monotonic() - start - imported_s - built_s
        seconds_of = {"build": built_s + rest_s} if request is None else {"build": built_s, "precision": rest_s}
        compilation = Compilation(
            schema=SCHEMA,
            compiled_at=timestamp(),
            folder=str(deployed),
            model=evaluator.session.model.source,
            toolchain=evaluator.session.toolchain.name,
            target=evaluator.session.target,
            pipeline=ChosenPipeline(candidate.name, str(candidate.pipeline)),
            classes=tuple(analysis.class_names),
            tried=tuple(_row(each) for each in tried),
            reference=Reference.from_json(evaluator.builder.source.to_json()),
            seconds={"import": imported_s, **seconds_of},
            rivals={},
            python="" if session.cannot_run_reason else str(session.toolchain.python),
            rivals_reason="the comparison did not finish",
            sizes=read_sizes(deployed),
            precision=decision,
            deviation=built.agreement.usual_deviation,
        )
        # Written now and again with the comparison, which may be killed; without the document, the folder cannot load.
        write_json(deployed / COMPILATION, compilation.to_json())
        report("measuring beside other engines", 0, 0)
        rivals_begin_s = monotonic()
        compared = _compare(beside, evaluator, candidate, built)
        compilation = replace(
            compilation,
            seconds={**compilation.seconds, "rivals": monotonic() - rivals_begin_s},
            rivals=compared.engines,
            rivals_reason=compared.reason,
            others_percent=compared.others_percent,
        )
    write_json(deployed / COMPILATION, compilation.to_json())
    return compilation, form


def _compare(beside: Rivals, evaluator: WorkerEvaluator, candidate: Candidate, built: Built) -> RivalComparison:
    """Return the comparison, or the error or interruption that ended it; the network is exported all the same."""
    try:
        return beside.compare(evaluator, candidate, built, time_limit=TimeLimit(RIVALS_S))
    except KeyboardInterrupt:
        return RivalComparison(reason="it was interrupted")
    except (PassSearchError, OSError) as error:
        return RivalComparison(reason=str(error))


def _candidates(evaluator: WorkerEvaluator, analysis: NetworkAnalysis, named: Candidate | None) -> Sequence[Candidate]:
    if named is None:
        return recommended_sequences(evaluator.session, analysis)
    return [with_prerequisites(evaluator.session, analysis, named)]


def _try(
    evaluator: WorkerEvaluator, candidates: Sequence[Candidate], *, time_limit: TimeLimit, report: Progress
) -> Iterator[_Tried]:
    """Build candidates in their order until one is built and the time is over; time all beside the first."""
    first: Built | None = None
    longest_s = 0.0
    for place, candidate in enumerate(candidates):
        if first is not None and time_limit.left_s() < longest_s:
            return
        report(f"building {candidate.name or 'the pipeline'}", place, len(candidates))
        start = monotonic()
        built = evaluator.build_candidate(candidate)
        if isinstance(built, Failure) or first is None:
            first = first if isinstance(built, Failure) else built
            yield _Tried(candidate, built)
        else:
            yield _timed(evaluator, candidate, built, first)
        longest_s = max(longest_s, monotonic() - start)


def _timed(evaluator: WorkerEvaluator, candidate: Candidate, built: Built, first: Built) -> _Tried:
    """Return a candidate with its throughput over the first's; it is ahead only where it is so in two processes.

    What disturbs one of the two in one process shows a lead that is none.
    """
    samples = evaluator.sample(first, built)
    if isinstance(samples, Failure):
        return _Tried(candidate, samples)
    ratio = one_process_ratio(samples.reference, samples.candidate) if samples.candidate else None
    if ratio is not None and ratio.value > 1:
        again = evaluator.sample(built, first)
        if isinstance(again, Failure):
            return _Tried(candidate, built)
        ratio = min(ratio, one_process_ratio(again.candidate, again.reference), key=lambda each: each.value)
    return _Tried(candidate, built, ratio)


def _lead(evaluator: WorkerEvaluator, candidate: Candidate, built: Built, *, first: Built) -> Ratio | Failure:
    """Return the throughput of a candidate over the first's, or why it was not timed."""
    timed = _timed(evaluator, candidate, built, first)
    if isinstance(timed.built, Failure):
        return timed.built
    return timed.ratio or Failure("infra", "measure", "", "it was not timed beside float32")


def _best(tried: Sequence[_Tried]) -> tuple[Candidate, Built]:
    """Return the fastest of those that were built; the first where none was timed."""
    right = [(each.ratio.value if each.ratio else 1.0, each.candidate, each.built) for each in tried]
    built = [(gain, candidate, made) for gain, candidate, made in right if not isinstance(made, Failure)]
    if not built:
        failure = tried[0].built
        assert isinstance(failure, Failure)
        name = tried[0].candidate.name or str(tried[0].candidate.pipeline)
        raise failure.as_error(f"`{name}` cannot be compiled: {failure.kind} in {failure.stage}: {failure.reason}.")
    _, candidate, made = max(built, key=lambda item: item[0])  # the first of equal ones
    return candidate, made


def _choice(candidate: Candidate, recommended: Sequence[_Tried]) -> str:
    """Return how the passes were chosen, as the README of the deployment says it.

    Args:
        candidate: The pipeline.
        recommended: The sequences among which it was chosen; empty for a pipeline that the user named.
    """
    if not recommended:
        is_written_out = not candidate.name or "," in candidate.name
        return "the user has written out" if is_written_out else f"are those of the pipeline {candidate.name}"
    count = sum(isinstance(each.built, Built) for each in recommended)
    timed = f" and by timing {count} sequences" if count > 1 else ""
    return f"were chosen by the network's features{timed}, without a search (sequence {candidate.name})"


def export_candidate(
    evaluator: WorkerEvaluator, candidate: Candidate, choice: str, *, folder: Path, form: CallForm, open_reason: str
) -> Path:
    """Write the deployment folder and build it by its own script, all checks included."""
    record = evaluator.deployment(candidate, evaluator.folder)
    if isinstance(record, Failure):
        raise record.as_error(f"The pipeline cannot be exported: {record.kind} in {record.stage}: {record.reason}.")
    opened = evaluator.session
    model, compiler = opened.model, opened.toolchain
    deployment = Deployment.of_record(
        record,
        dialect=opened.dialect,
        tvm_version=compiler.tvm_version,
        tvm_commit=compiler.tvm_commit or "",
        target=opened.target,
        pipeline=candidate.pipeline,
        factories=record["factories"],
        build=candidate.build,
        network=evaluator.folder / NETWORK,
        model={"name": model.name, "source": model.source, "sha256": model.sha256, "batch": model.batch},
        choice=choice,
        form=form.to_json(),
        sizes=size_record(evaluator, record["expected"], open_reason=open_reason),
        import_paths=opened.paths,
    )
    return write_deployment(folder, deployment, complete=lambda new: _build(evaluator, new))


def _build(evaluator: WorkerEvaluator, folder: Path) -> None:
    """Build a deployment folder by its own script."""
    opened, log = evaluator.session, evaluator.folder / "build.log"
    if not opened.cannot_run_reason and run_script(opened.toolchain.python, folder / SCRIPT, log=log):
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise UserError(f"The export does not build again as it was built: {' '.join(last)}")


def _row(tried: _Tried) -> TriedPipeline:
    failure = StatedFailure(**vars(tried.built)) if isinstance(tried.built, Failure) else None
    ratio = None if tried.ratio is None else tried.ratio.value
    return TriedPipeline(tried.candidate.name, str(tried.candidate.pipeline), ratio, failure)
