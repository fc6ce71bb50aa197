"""Named pipelines against each other: built, verified, and sampled interleaved in several processes.

Pipelines of one toolchain are interleaved in one process, round by round. Two compilers cannot share a process, so
several toolchains take turns process by process, and ratios between them are of processes that follow each other.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations

from passsearch.core import Candidate, Failure
from passsearch.errors import UserError
from passsearch.evaluate import (
    Built,
    Conditions,
    ProcessSamples,
    Samples,
    TimedArtifacts,
    TimedSamples,
    TimingRequest,
    WorkerEvaluator,
)
from passsearch.measure import (
    LEVEL,
    Cf22Plan,
    Consumption,
    Ratio,
    RoundPlan,
    cache_bytes,
    cf22_ratio,
    is_improvement,
    min_repetitions,
    noise_floor,
    process_ratio,
)
from passsearch.search.document import Document, model_document, ratio_document, toolchain_document
from passsearch.search.measurement import measured, measurement_document
from passsearch.search.pass_selection import analyze_network, with_prerequisites
from passsearch.store import SCHEMA

CACHES = ("warm", "flushed")
PAIRED, CF22 = PROTOCOLS = ("paired", "cf22")
"""The project's own protocol, and the paper's."""

BASELINE = 0
"""Index of the baseline among the timed pipelines; failures get index -1."""


@dataclass(frozen=True)
class ComparisonOptions:
    """Options of one comparison.

    Attributes:
        rounds: Rounds of each process.
        processes: Number of processes; as many as the verdicts need if ``None``.
        protocol: One of ``PROTOCOLS``.
        cache: One of ``CACHES``.
    """

    rounds: int = 6
    processes: int | None = None
    protocol: str = PAIRED
    cache: str = "warm"


@dataclass(frozen=True)
class Side:
    """One toolchain with the pipelines it builds."""

    evaluator: WorkerEvaluator
    candidates: Sequence[Candidate]

    def prepared(self, *, qualified: bool) -> "Side":
        """Return the side with prerequisite passes inserted; ``qualified`` names begin with the toolchain's."""
        session = self.evaluator.session
        analysis = analyze_network(session, self.evaluator.network.summary)
        candidates = [with_prerequisites(session, analysis, candidate) for candidate in self.candidates]
        if qualified:
            prefix = session.toolchain.name
            candidates = [replace(each, name=f"{prefix}:{each.name or each.pipeline}") for each in candidates]
        return replace(self, candidates=candidates)


@dataclass(frozen=True)
class Contender:
    """One pipeline of a comparison.

    Attributes:
        side: Its toolchain.
        candidate: The pipeline with its build options.
        outcome: Its artifact, or its failure.
        index: Its place among the timed pipelines.
    """

    side: Side
    candidate: Candidate
    outcome: Built | Failure
    index: int


@dataclass(frozen=True)
class Timed:
    """Samples of all pipelines of a comparison.

    Attributes:
        processes: Samples by turn. One turn has one process of each toolchain; they count as one process here.
        conditions: Conditions of each pipeline by index, in the first turn.
        protocol: One of ``PROTOCOLS``.
        level: Level of the intervals that decide verdicts, corrected for their number.
        baseline: Digest of the baseline's binary.
        consumption: Consumption of each pipeline by index; empty where some device has no meter.
    """

    processes: Sequence[ProcessSamples]
    conditions: Sequence[Conditions]
    protocol: str
    level: float
    baseline: str
    consumption: Sequence[Consumption] = ()

    def samples(self, process: ProcessSamples, index: int) -> Samples:
        """Return the samples of one pipeline in one process."""
        return process.baseline if index == BASELINE else process.candidates[index - 1]

    def ratio(self, index: int, *, reference: int = BASELINE, level: float = LEVEL) -> Ratio:
        """Return one pipeline's throughput as a multiple of another's."""
        pairs = [(self.samples(each, reference), self.samples(each, index)) for each in self.processes]
        return cf22_ratio(pairs) if self.protocol == CF22 else process_ratio(pairs, level=level)

    @property
    def floor(self) -> float:
        """Share by which the baseline differs from its twin; infinite for too few processes."""
        pairs = [(each.baseline, each.twin) for each in self.processes]
        return noise_floor(cf22_ratio(pairs) if self.protocol == CF22 else process_ratio(pairs))


def compare_candidates(
    sides: Sequence[Side], options: ComparisonOptions, *, progress: Callable[[str, int, int], None]
) -> Document:
    """Return a table: every pipeline's measurement and its ratio to the baseline, or its failure.

    The baseline belongs to the first side. Every process of its toolchain times it twice: the ratio to this twin is the
    noise of the comparison. Pipelines that are one binary are timed separately. There is one compile of each. Without
    any pipeline the baseline is compared with itself. Verdicts are corrected for the number of pairs (Bonferroni).

    Args:
        sides: Toolchains with their pipelines.
        options: Options of the comparison.
        progress: Callback; gets a text, the number of finished pipelines and the number of all.

    Raises:
        UserError: The baseline fails, or the toolchains import the network with different inputs.
    """
    evaluator = sides[0].evaluator
    baseline = _baseline(evaluator, sides[0].candidates)
    if not any(side.candidates for side in sides):
        sides = [replace(sides[0], candidates=(baseline, baseline))]
    several = len(sides) > 1
    sides = [side.prepared(qualified=several) for side in sides]
    [baseline] = replace(sides[0], candidates=[baseline]).prepared(qualified=several).candidates
    _share_reference(sides)
    number = sum(len(side.candidates) for side in sides)
    reference = _built_baseline(evaluator, baseline, progress=lambda text: progress(text, 0, number))
    contenders = _contenders(sides, reference, progress=lambda text, done: progress(text, done, number))
    progress("measuring", number, number)
    timed = _time(sides, contenders, reference=reference, options=options)
    rows = [_row(contender, timed) for contender in contenders]
    return {
        "schema": SCHEMA,
        "model": model_document(evaluator.session, evaluator.network),
        "target": evaluator.session.target,
        "toolchain": toolchain_document(evaluator.session),
        "device": evaluator.session.sensors.device,
        "baseline": baseline.name,
        "protocol": options.protocol,
        "cache": options.cache,
        "level": LEVEL,
        "processes": len(timed.processes),
        "noise_floor": timed.floor if math.isfinite(timed.floor) else None,
        "rows": rows,
        "pairs": [] if options.protocol == CF22 else _pairs(rows, [each.index for each in contenders], timed=timed),
        **({"toolchains": [toolchain_document(side.evaluator.session) for side in sides]} if several else {}),
    }


def _share_reference(sides: Sequence[Side]) -> None:
    """Compare all outputs with the first toolchain's, so that an importer that misreads the network wins nothing."""
    first = sides[0].evaluator
    first.build(first.graph.root, first.session.dialect.baselines[0])
    for side in sides[1:]:
        side.evaluator.judge_against(first)


def _built_baseline(evaluator: WorkerEvaluator, baseline: Candidate, *, progress: Callable[[str], None]) -> Built:
    [outcome] = _built(evaluator, [baseline], progress=lambda text, _: progress(text))
    if isinstance(outcome, Failure):
        detail = f"{outcome.kind} in {outcome.stage}: {outcome.reason}"
        raise UserError(f"The baseline `{baseline.name}` fails on this network, {detail}.")
    return outcome


def _contenders(sides: Sequence[Side], reference: Built, *, progress: Callable[[str, int], None]) -> list[Contender]:
    contenders: list[Contender] = []
    for side in sides:
        before = len(contenders)
        outcomes = _built(side.evaluator, side.candidates, progress=progress, before=before)
        for candidate, outcome in zip(side.candidates, outcomes, strict=True):
            used = [contender.index for contender in contenders]
            index = _index(outcome, reference if side is sides[0] else None, used=used)
            contenders.append(Contender(side, candidate, outcome, index))
    return contenders


def _index(outcome: Built | Failure, reference: Built | None, *, used: Sequence[int]) -> int:
    """Return the place of a pipeline among the timed ones. Failures get index -1.

    A baseline that is named twice is timed once more for each further time.
    """
    if isinstance(outcome, Failure):
        return -1
    if reference is not None and outcome.key == reference.key and BASELINE not in used:
        return BASELINE
    return max([BASELINE, *used]) + 1


def _plan(options: ComparisonOptions, rounds: RoundPlan) -> RoundPlan | Cf22Plan:
    if options.protocol == CF22:
        return Cf22Plan()
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
        identity = json.dumps([asdict(plan), [each.key for each in self.built]])
        return f"{what} {hashlib.sha256(identity.encode()).hexdigest()[:16]}"


def _jobs(sides: Sequence[Side], contenders: Sequence[Contender], *, reference: Built) -> Iterator[_Job]:
    for number, side in enumerate(sides):
        own = tuple(
            each.outcome
            for each in contenders
            if each.index > BASELINE and each.side is side and isinstance(each.outcome, Built)
        )
        folders = tuple(built.folder for built in own)
        if number == 0:
            artifacts = TimedArtifacts(reference.folder, folders, twin=reference.folder)
            yield _Job(side.evaluator, (reference, reference, *own), artifacts)
        elif own:
            yield _Job(side.evaluator, own, TimedArtifacts(None, folders))


def _time(
    sides: Sequence[Side], contenders: Sequence[Contender], *, reference: Built, options: ComparisonOptions
) -> Timed:
    plan = _plan(options, sides[0].evaluator.plans.final_rounds)
    timed = sum(contender.index > BASELINE for contender in contenders)
    level = 1 - (1 - LEVEL) / max(1, math.comb(timed + 1, 2))
    number = options.processes or (1 if options.protocol == CF22 else min_repetitions(level))
    jobs = list(_jobs(sides, contenders, reference=reference))
    turns = [_turn(jobs, plan, turn=turn) for turn in range(number)]
    conditions = [turns[0][0].conditions]
    for process in turns[0]:
        conditions += [process.conditions] * len(process.candidates)
    return Timed(
        processes=[_merge_processes(turn) for turn in turns],
        conditions=conditions,
        protocol=options.protocol,
        level=level,
        baseline=reference.digest,
        consumption=_consumption(jobs, plan),
    )


def _turn(jobs: Sequence[_Job], plan: RoundPlan | Cf22Plan, *, turn: int) -> list[ProcessSamples]:
    """Time one process of each toolchain; every other turn the last toolchain goes first."""
    order = range(len(jobs)) if turn % 2 == 0 else reversed(range(len(jobs)))
    samples = {number: _sample(jobs[number], plan, turn=turn) for number in order}
    return [samples[number] for number in sorted(samples)]


def _sample(job: _Job, plan: RoundPlan | Cf22Plan, *, turn: int) -> ProcessSamples:
    key = job.key(plan, f"compare {turn}")
    timed = job.evaluator.time_fresh(TimingRequest(key, job.artifacts, plan, processes=1, turn=turn))
    if isinstance(timed, Failure):
        raise UserError(f"The measurement failed: {timed.reason}.")
    assert isinstance(timed, TimedSamples)
    return timed.processes[0]


def _merge_processes(processes: Sequence[ProcessSamples]) -> ProcessSamples:
    """Return the samples of all processes of one turn as if one process had timed them; the first has the baseline."""
    candidates = tuple(samples for process in processes for samples in process.candidates)
    return replace(processes[0], candidates=candidates)


def _consumption(jobs: Sequence[_Job], plan: RoundPlan | Cf22Plan) -> tuple[Consumption, ...]:
    """Return the consumption by index; empty if some toolchain's artifacts could not be read."""
    by_index: list[Consumption] = []
    for job in jobs:
        windows = job.evaluator.plans.final_windows
        consumed = job.evaluator.measure_consumption(job.key(plan, "consume"), job.artifacts.folders, plan=windows)
        if consumed is None or isinstance(consumed, Failure):
            return ()
        has_twin = job.artifacts.twin is not None
        by_index += [each for number, each in enumerate(consumed.artifacts) if not (has_twin and number == 1)]
    return tuple(by_index)


def _pairs(rows: Sequence[Document], indices: Sequence[int], *, timed: Timed) -> list[Document]:
    """Return, for every two pipelines, the second's throughput as a multiple of the first's, with the verdict."""
    pairs = []
    measured_rows = [number for number, index in enumerate(indices) if index >= BASELINE]
    for first, second in combinations(measured_rows, 2):
        left, right = rows[first], rows[second]
        ratio = timed.ratio(indices[second], reference=indices[first], level=timed.level)
        same = left["binary"] == right["binary"]
        verdict = "same binary" if same else _verdict(timed, first=indices[first], second=indices[second])
        pairs.append(
            {
                "first": left["name"] or left["pipeline"],
                "second": right["name"] or right["pipeline"],
                "rows": [first, second],
                "level": timed.level,
                **(ratio_document(ratio) or {}),
                "verdict": verdict,
            }
        )
    return pairs


def _verdict(timed: Timed, *, first: int, second: int) -> str:
    if is_improvement(timed.ratio(second, reference=first, level=timed.level), floor=timed.floor):
        return "faster"
    if is_improvement(timed.ratio(first, reference=second, level=timed.level), floor=timed.floor):
        return "slower"
    return "no significant difference"


def _baseline(evaluator: WorkerEvaluator, candidates: Sequence[Candidate]) -> Candidate:
    """Return the default baseline if it is named or no other is, else the first named baseline."""
    dialect = evaluator.session.dialect
    names = {baseline.name for baseline in dialect.baselines}
    if any(candidate.name == dialect.baseline.name for candidate in candidates):
        return dialect.baseline
    return next((candidate for candidate in candidates if candidate.name in names), dialect.baseline)


def _built(
    evaluator: WorkerEvaluator,
    candidates: Sequence[Candidate],
    *,
    progress: Callable[[str, int], None],
    before: int = 0,
) -> list[Built | Failure]:
    outcomes: list[Built | Failure] = []
    for number, candidate in enumerate(candidates):
        progress(f"building {candidate.name}", before + number)
        state = evaluator.reach(candidate.pipeline)
        outcomes.append(state if isinstance(state, Failure) else evaluator.build(state, candidate))
    return [each if isinstance(each, Failure) else evaluator.restore(each) for each in outcomes]


def _row(contender: Contender, timed: Timed) -> Document:
    candidate, built, session = contender.candidate, contender.outcome, contender.side.evaluator.session
    identity = {"name": candidate.name, "pipeline": str(candidate.pipeline), "build": candidate.build.to_json()}
    if isinstance(built, Failure):
        return {**identity, "failure": built.to_json()}
    return {
        **identity,
        "toolchain": session.toolchain.name,
        "state": built.state,
        "binary": built.digest,
        "ratio": ratio_document(timed.ratio(contender.index)),
        "outputs": built.agreement.to_json(),
        "improved": _improves(timed, contender.index, digest=built.digest),
        **_measurement(contender, built, timed=timed),
    }


def _improves(timed: Timed, index: int, *, digest: str) -> bool:
    ratio = timed.ratio(index, level=timed.level)
    return digest != timed.baseline and is_improvement(ratio, floor=timed.floor)


def _measurement(contender: Contender, built: Built, *, timed: Timed) -> Mapping[str, object]:
    evaluator, index = contender.side.evaluator, contender.index
    apply_s = evaluator.applier.apply_seconds(contender.candidate.pipeline)
    measurement = measured(
        built,
        evaluator.session,
        samples=[value for process in timed.processes for value in timed.samples(process, index)],
        compile_s=apply_s + built.seconds,
        apply_s=apply_s,
        batch=evaluator.batch,
        conditions=timed.conditions[index],
        consumption=timed.consumption[index : index + 1],
    )
    return measurement_document(measurement)
