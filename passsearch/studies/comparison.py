"""Named pipelines against each other: built, verified, and sampled interleaved in several processes.

Pipelines of one toolchain are interleaved in one process, round by round. Two compilers cannot share a process, so
several toolchains take turns process by process, and ratios between them are of processes that follow each other.
"""

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

from passsearch.core import Candidate, Failure, timestamp
from passsearch.evaluate import (
    Built,
    Conditions,
    ProcessSamples,
    TimedArtifacts,
    TimingRequest,
    WorkerEvaluator,
    summarize_conditions,
)
from passsearch.measure import (
    LEVEL,
    Cf22Plan,
    Consumption,
    RoundPlan,
    cache_bytes,
)
from passsearch.results import (
    Build,
    ComparedPipeline,
    Comparison,
    Device,
    FailedPipeline,
    Measurement,
    Pair,
    StatedFailure,
)
from passsearch.search.document import compiler_of, model_of
from passsearch.search.measurement import make_measurement
from passsearch.search.stated_ratio import stated
from passsearch.store import SCHEMA
from passsearch.studies.comparison_records import (
    BASELINE,
    CF22,
    ComparisonOptions,
    ComparisonSamples,
    Contender,
    Side,
)

Row: TypeAlias = ComparedPipeline | FailedPipeline

_log = logging.getLogger(__name__)


def compare_candidates(
    sides: Sequence[Side], options: ComparisonOptions, *, progress: Callable[[str, int, int], None]
) -> Comparison:
    """Return a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    The baseline belongs to the first side. Every process of its toolchain times it twice: the ratio to this twin is the
    noise of the comparison. Pipelines that are one binary are timed separately. Every pipeline is compiled once.
    Without any pipeline the baseline is compared with itself. Verdicts are corrected for the number of pairs
    (Bonferroni).

    Args:
        sides: Toolchains with their pipelines.
        options: Options of the comparison.
        progress: Callback; gets a text, the number of finished pipelines and the number of all.

    Raises:
        UserError: The baseline fails, or the toolchains import the network with different inputs.
        EnvironmentFault: The machine fails.
    """
    evaluator = sides[0].evaluator
    baseline = _baseline(evaluator, sides[0].candidates)
    if not any(side.candidates for side in sides):
        sides = [replace(sides[0], candidates=(baseline, baseline))]
    several = len(sides) > 1
    sides = [side.prepare(qualified=several) for side in sides]
    # The baseline may stand in no list, so it goes through the same preparation by itself.
    [baseline] = replace(sides[0], candidates=[baseline]).prepare(qualified=several).candidates
    _share_reference(sides)
    number = sum(len(side.candidates) for side in sides)
    reference = built_baseline(evaluator, baseline, progress=lambda text: progress(text, 0, number))
    contenders = _contenders(sides, reference, progress=lambda text, done: progress(text, done, number))
    progress("measuring", number, number)
    timings = time_contenders(sides, contenders, reference=reference, options=options)
    rows = [_row(contender, timings) for contender in contenders]
    return Comparison(
        schema=SCHEMA,
        measured_at=timestamp(),
        model=model_of(evaluator.session, evaluator.network),
        target=evaluator.session.target,
        toolchain=compiler_of(evaluator.session),
        device=Device.from_json(evaluator.session.sensors.device),
        baseline=baseline.name,
        protocol=options.protocol,
        runs=options.runs if options.protocol == CF22 else None,
        cache=options.cache,
        level=LEVEL,
        processes=len(timings.processes),
        noise_floor=timings.floor if math.isfinite(timings.floor) else None,
        rows=tuple(rows),
        # The paper's protocol has no interval, so it has no verdict on a pair.
        pairs=() if options.protocol == CF22 else _pairs(rows, contenders, timings=timings),
        toolchains=tuple(compiler_of(side.evaluator.session) for side in sides) if several else (),
    )


def _share_reference(sides: Sequence[Side]) -> None:
    """Compare all outputs with the first toolchain's, so that an importer that misreads the network wins nothing.

    Raises:
        UserError: The reference cannot be built, or the toolchains import the network with different inputs.
        EnvironmentFault: The machine fails.
    """
    first, *others = (side.evaluator for side in sides)
    if not others:
        return
    # The build of this baseline makes the reference, and no other build can show that the reference is wrong.
    built_baseline(first, first.session.dialect.baseline, progress=lambda _: None)
    for evaluator in others:
        evaluator.judge_against(first)


def built_baseline(evaluator: WorkerEvaluator, baseline: Candidate, *, progress: Callable[[str], None]) -> Built:
    """Build the baseline.

    Raises:
        UserError: It fails.
        EnvironmentFault: The machine fails.
    """
    [outcome] = _build_all(evaluator, [baseline], progress=lambda text, _: progress(text))
    if isinstance(outcome, Failure):
        detail = f"{outcome.kind} in {outcome.stage}: {outcome.reason}"
        raise outcome.as_error(f"The baseline `{baseline.name}` fails on this network, {detail}.")
    return outcome


def _contenders(sides: Sequence[Side], reference: Built, *, progress: Callable[[str, int], None]) -> list[Contender]:
    contenders: list[Contender] = []
    for side in sides:
        before = len(contenders)
        outcomes = _build_all(side.evaluator, side.candidates, progress=progress, before=before)
        for candidate, outcome in zip(side.candidates, outcomes, strict=True):
            used = [contender.index for contender in contenders]
            index = _index(outcome, reference if side is sides[0] else None, used=used)
            contenders.append(Contender(side, candidate, outcome, index))
    return contenders


def _index(outcome: Built | Failure, reference: Built | None, *, used: Sequence[int]) -> int:
    """Return the index of a pipeline among those that are timed. Failures get index -1.

    A baseline that is named several times gets a further index each time, and is timed again.
    """
    if isinstance(outcome, Failure):
        return -1
    if reference is not None and outcome.key == reference.key and BASELINE not in used:
        return BASELINE
    return max([BASELINE, *used]) + 1


def _plan(options: ComparisonOptions, rounds: RoundPlan) -> RoundPlan | Cf22Plan:
    if options.protocol == CF22:
        return Cf22Plan(warmups=options.runs // 10, samples=options.runs)
    # Twice the largest cache: a cache replaces lines by an approximation of their age, so its own size is not enough.
    flush_bytes = 2 * cache_bytes() if options.cache == "flushed" else 0
    return replace(rounds, rounds=options.rounds, flush_bytes=flush_bytes)


@dataclass(frozen=True)
class _Job:
    """The artifacts that one toolchain times in every turn."""

    evaluator: WorkerEvaluator
    built: tuple[Built, ...]
    artifacts: TimedArtifacts

    def key(self, plan: RoundPlan | Cf22Plan, what: str) -> str:
        """Return the name of the samples in the log."""
        # One folder may hold the log of several comparisons, which differ in their plans and pipelines.
        identity = json.dumps([asdict(plan), [built.key for built in self.built]])
        return f"{what} {hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _jobs(sides: Sequence[Side], contenders: Sequence[Contender], *, reference: Built) -> Iterator[_Job]:
    for number, side in enumerate(sides):
        own = tuple(
            contender.outcome
            for contender in contenders
            if contender.index > BASELINE and contender.side is side and isinstance(contender.outcome, Built)
        )
        folders = tuple(built.folder for built in own)
        if number == 0:
            # The twin is the same folder, loaded a second time: a comparison has one compile of each pipeline.
            artifacts = TimedArtifacts(reference.folder, folders, twin=reference.folder)
            yield _Job(side.evaluator, (reference, reference, *own), artifacts)
        elif own:
            yield _Job(side.evaluator, own, TimedArtifacts(None, folders))


def time_contenders(
    sides: Sequence[Side],
    contenders: Sequence[Contender],
    *,
    reference: Built,
    options: ComparisonOptions,
    go_on: Callable[[ComparisonSamples], bool] = lambda samples: True,
) -> ComparisonSamples:
    """Return samples of the reference, its twin and all contenders, interleaved in several processes.

    Args:
        sides: Toolchains.
        contenders: Built pipelines; their indices are their places among those that are timed.
        reference: The baseline.
        options: Options of the comparison.
        go_on: Callback after a turn, which gets the samples so far; false ends the measurement early.
    """
    plan = _plan(options, sides[0].evaluator.plans.final_rounds)
    others = sum(contender.index > BASELINE for contender in contenders)
    # Bonferroni: the probability that any verdict is wrong is at most that of one wrong interval at `LEVEL`.
    level = 1 - (1 - LEVEL) / max(1, math.comb(others + 1, 2))
    # The paper had one process and no interval.
    number = options.processes or (1 if options.protocol == CF22 else sides[0].evaluator.plans.comparison_processes)
    jobs = list(_jobs(sides, contenders, reference=reference))
    _log.info("timing %d pipelines in %d processes of each toolchain", others + 1, number)
    _log.debug("%d pairs need intervals at %.4f", math.comb(others + 1, 2), level)
    turns: list[list[ProcessSamples]] = []
    for turn in range(number):
        turns.append(_turn(jobs, plan, turn=turn))
        samples = ComparisonSamples(
            processes=[_merge(turn) for turn in turns],
            conditions=[summarize_conditions(each) for each in zip(*map(_conditions, turns), strict=True)],
            protocol=options.protocol,
            level=level,
            baseline=reference.digest,
        )
        if not go_on(samples):
            break
    return replace(samples, consumption=_consumption(jobs, plan) if options.reads_consumption else ())


def _conditions(turn: Sequence[ProcessSamples]) -> list[Conditions]:
    """Return the conditions of the baseline and of every other artifact that the processes of a turn timed."""
    conditions = [turn[0].conditions]
    for process in turn:
        conditions += [process.conditions] * len(process.candidates)
    return conditions


def _turn(jobs: Sequence[_Job], plan: RoundPlan | Cf22Plan, *, turn: int) -> list[ProcessSamples]:
    """Time one process of each toolchain; every other turn the last toolchain goes first."""
    order = range(len(jobs)) if turn % 2 == 0 else reversed(range(len(jobs)))
    samples = {number: _sample(jobs[number], plan, turn=turn) for number in order}
    return [samples[number] for number in sorted(samples)]


def _sample(job: _Job, plan: RoundPlan | Cf22Plan, *, turn: int) -> ProcessSamples:
    key = job.key(plan, f"compare {turn}")
    result = job.evaluator.time_fresh(TimingRequest(key, job.artifacts, plan, processes=1, turn=turn))
    # Without one of its processes a comparison has fewer than its verdicts need.
    if isinstance(result, Failure):
        raise result.as_error(f"The measurement failed: {result.reason}.")
    return result.processes[0]


def _merge(processes: Sequence[ProcessSamples]) -> ProcessSamples:
    """Return the processes of one turn as one; the first one timed the baseline."""
    candidates = tuple(samples for process in processes for samples in process.candidates)
    return replace(processes[0], candidates=candidates)


def _consumption(jobs: Sequence[_Job], plan: RoundPlan | Cf22Plan) -> tuple[Consumption, ...]:
    """Return the consumption of each pipeline by its index; empty if that of some toolchain could not be read."""
    by_index: list[Consumption] = []
    for job in jobs:
        windows = job.evaluator.plans.final_windows
        consumed = job.evaluator.measure_consumption(job.key(plan, "consume"), job.artifacts.folders, plan=windows)
        if consumed is None or isinstance(consumed, Failure):
            return ()
        has_twin = job.artifacts.twin is not None
        # The twin is in second place (`TimedArtifacts.folders`) and has no index.
        by_index += [
            consumption for place, consumption in enumerate(consumed.artifacts) if not (has_twin and place == 1)
        ]
    return tuple(by_index)


def _pairs(rows: Sequence[Row], contenders: Sequence[Contender], *, timings: ComparisonSamples) -> tuple[Pair, ...]:
    """Return, for every two pipelines, the second's throughput as a multiple of the first's, with the verdict."""
    pairs, indices = [], [contender.index for contender in contenders]
    measured_rows = [(number, row) for number, row in enumerate(rows) if isinstance(row, ComparedPipeline)]
    for (first, left), (second, right) in combinations(measured_rows, 2):
        ratio = timings.ratio(indices[second], reference=indices[first], level=timings.level)
        # What is one binary is equally fast, so a difference that was read is noise.
        same = left.binary == right.binary
        verdict = "same binary" if same else _verdict(timings, first=indices[first], second=indices[second])
        pairs.append(
            Pair(
                first=left.name or left.pipeline,
                second=right.name or right.pipeline,
                rows=(first, second),
                level=timings.level,
                ratio=ratio.value,
                interval=stated(ratio).interval,
                verdict=verdict,
            )
        )
    return tuple(pairs)


def _verdict(timings: ComparisonSamples, *, first: int, second: int) -> str:
    if timings.is_faster(second, reference=first):
        return "faster"
    if timings.is_faster(first, reference=second):
        return "slower"
    return "no significant difference"


def _baseline(evaluator: WorkerEvaluator, candidates: Sequence[Candidate]) -> Candidate:
    """Return the default baseline if it is named or no other is, else the first named baseline."""
    dialect = evaluator.session.dialect
    names = {baseline.name for baseline in dialect.baselines}
    if any(candidate.name == dialect.baseline.name for candidate in candidates):
        return dialect.baseline
    return next((candidate for candidate in candidates if candidate.name in names), dialect.baseline)


def _build_all(
    evaluator: WorkerEvaluator,
    candidates: Sequence[Candidate],
    *,
    progress: Callable[[str, int], None],
    before: int = 0,
) -> list[Built | Failure]:
    outcomes: list[Built | Failure] = []
    for number, candidate in enumerate(candidates):
        progress(f"building {candidate.name}", before + number)
        _log.info("building %s with %s", candidate.name or candidate.pipeline, evaluator.session.toolchain.name)
        outcomes.append(evaluator.build_candidate(candidate))
    # Restored at the end: pipelines with one IR share a folder, and one of them with a stricter limit deletes it when
    # its outputs are refused.
    return [outcome if isinstance(outcome, Failure) else evaluator.restore(outcome) for outcome in outcomes]


def _row(contender: Contender, timings: ComparisonSamples) -> Row:
    candidate, built, evaluator = contender.candidate, contender.outcome, contender.side.evaluator
    identity: dict[str, Any] = {"name": candidate.name, "pipeline": str(candidate.pipeline)}
    identity["build"] = Build.from_json(candidate.build.to_json())
    if isinstance(built, Failure):
        return FailedPipeline(**identity, failure=StatedFailure(**vars(built)))
    apply_s = evaluator.applier.apply_seconds(candidate.pipeline)
    assert not isinstance(apply_s, Failure)  # a comparison recalls no edge, so none is applied once more
    return ComparedPipeline(
        **identity,
        toolchain=evaluator.session.toolchain.name,
        state=built.state,
        binary=built.digest,
        ratio=stated(timings.ratio(contender.index)),
        ratio_of_medians=stated(timings.ratio_of_medians(contender.index)),
        outputs=built.agreement.stated,
        improved=_improves(timings, contender.index, digest=built.digest),
        **vars(_measurement(contender, built, apply_s=apply_s, timings=timings)),
    )


def _improves(timings: ComparisonSamples, index: int, *, digest: str) -> bool:
    return digest != timings.baseline and timings.is_faster(index)


def _measurement(contender: Contender, built: Built, *, apply_s: float, timings: ComparisonSamples) -> Measurement:
    evaluator, index = contender.side.evaluator, contender.index
    return make_measurement(
        built,
        evaluator.session,
        processes=[timings.samples(process, index) for process in timings.processes],
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        conditions=timings.conditions[index],
        consumption=timings.consumption[index : index + 1],
    )
