"""The result of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

from passsearch.results.bits import KeptBits
from passsearch.results.candidate import Build, Candidate, FailedCandidate, Latency, NamedPipeline, StatedFailure
from passsearch.results.composition import ComposedPipeline, NoComposition
from passsearch.results.network import ModelCase, Reference, Shape, ValueRange
from passsearch.results.parts import Interval, Outcome, Positive, Ratios, StatedRatio
from passsearch.results.precision import NoPrecision, PrecisionDecision
from passsearch.results.record import Allowed, Record, left_out, may_be_missing
from passsearch.results.rivals import RivalComparison
from passsearch.results.setup import MeasuredNetwork

Count: TypeAlias = Annotated[int, Allowed(least=0)]
Share: TypeAlias = Annotated[float, Allowed(least=0)]


@dataclass(frozen=True)
class ClassLabel(Record):
    """An architecture class of the network.

    Attributes:
        name: Its name.
        evidence: Why the network belongs to it.
    """

    name: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decision(Record):
    """A pass that was searched, or was not.

    Attributes:
        name: Name of the pass.
        reason: Why.
    """

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class SearchedSpace(Record):
    """The space of a search, and what was seen of it.

    Attributes:
        passes: Passes that were searched.
        dropped: Passes that were not.
        sequences_asked: Number of sequences that were proposed.
        states: Number of different IRs.
        states_measured: Number of IRs that were measured.
        binaries: Number of different binaries.
        duplicates: Number of sequences that led to a known IR.
        invalid: Number of sequences with a pass that failed.
        kernels: Number of different sets of kernels.
        closed: True if no untried sequence can produce another IR.
        closed_without: Passes without which the space is closed.
        sampler: Strategy that proposed candidates.
        ended: Reason why the search ended.
        idle: Passes that were applied and changed no IR.
        untried: Passes that were requested and not applied.
    """

    passes: tuple[Decision, ...] = ()
    dropped: tuple[Decision, ...] = ()
    sequences_asked: Count | None = None
    states: Count | None = None
    states_measured: Count | None = None
    binaries: Count | None = None
    duplicates: Count | None = None
    invalid: Count | None = None
    kernels: Count | None = None
    closed: bool | None = None
    closed_without: tuple[str, ...] = ()
    sampler: str | None = None
    ended: str | None = None
    idle: tuple[str, ...] = ()
    untried: tuple[str, ...] = ()


@dataclass(frozen=True)
class Source(Record):
    """Who proposed the winner.

    Attributes:
        kind: ``baseline``, ``sequence`` (of the catalog), ``composition``, ``explored state`` or ``sampler``.
        name: Its name.
    """

    kind: Literal["baseline", "sequence", "composition", "explored state", "sampler"]
    name: str | None


@dataclass(frozen=True, kw_only=True)
class Contender(Candidate):
    """The baseline or the winner, with the measurement that confirmed the winner where there is one.

    Attributes:
        compile_samples_s: Seconds of every fresh compile.
        compile_parts_s: Seconds by part of a compile: ``passes``, ``constants``, ``lowering``, ``codegen`` and
            ``writing``.
    """

    compile_samples_s: tuple[float, ...] = left_out(())
    compile_parts_s: Mapping[str, float] | None = left_out(or_null=True)


@dataclass(frozen=True, kw_only=True)
class Winner(Contender):
    """The winner.

    Attributes:
        source: Who proposed it; results of earlier versions do not say.
    """

    build: Build = field()
    source: Source | None = left_out(or_null=True)


@dataclass(frozen=True, kw_only=True)
class BestOfCatalog(Candidate):
    """The fastest sequence of the catalog that the search measured, which one has without a search.

    Attributes:
        of: Number of sequences that it is the fastest of.
        is_best: True if the winner is the same binary.
        gain: Throughput of the winner over its; ``None`` where it is the winner.
        improved: True if that gain is certain.
    """

    name: str = field()
    build: Build = field()
    ratio: StatedRatio | None = field()
    of: Count
    is_best: bool
    gain: StatedRatio | None
    improved: bool

    @property
    def is_timed(self) -> bool:
        """True if the winner was timed beside it, so that ``gain`` has an interval."""
        return self.gain is not None and self.gain.interval is not None


@dataclass(frozen=True, kw_only=True)
class Verdict(Record):
    """The verdict on the winner.

    Attributes:
        improved: True if it is certainly better than the baseline.
        objective: The objective.
        objectives: All objectives of the search.
        ratio: How many times better it is.
        interval: The confidence interval of ``ratio``.
        level: Level of the intervals.
        confirmed: True if fresh compiles have confirmed ``ratio``.
        repetitions: Number of fresh compiles.
        processes: Number of processes that timed them.
        reproducible: True if every compile gave the same binary.
        same_binary: True if winner and baseline are one binary.
        noise_floor: Largest gain that noise may make; ``None`` where too few processes give no estimate.
        noise: Largest difference that noise made between two processes or two builds of one pipeline.
        sustained: The ratio in runs of some seconds.
        disagreement: How two estimates contradict each other; empty if they do not.
        keep_throughput: Share of the throughput that the winner must keep.
        keeps_throughput: True if it certainly does.
        seconds: Seconds that the confirmation took.
        reason: Why there is no improvement.
        failure: Why the confirmation failed.
        outcome: ``improved``, ``no gain``, ``undecided`` or ``unconfirmed``; earlier versions did not store it.
    """

    improved: bool = False
    objective: Literal["throughput", "latency", "compile_time", "memory", "power", "energy"] = "throughput"
    objectives: tuple[str, ...] = ()
    ratio: Positive | None = None
    interval: Interval | None = None
    level: float | None = None
    confirmed: bool = False
    repetitions: int | None = may_be_missing()
    processes: int | None = may_be_missing()
    reproducible: bool | None = may_be_missing()
    same_binary: bool | None = may_be_missing()
    noise_floor: Share | None = None
    noise: Share | None = may_be_missing()
    sustained: Positive | None = may_be_missing()
    disagreement: str | None = may_be_missing()
    keep_throughput: float = may_be_missing(0.0)
    keeps_throughput: bool | None = left_out()
    seconds: float | None = may_be_missing()
    reason: str | None = None
    failure: StatedFailure | None = left_out(or_null=True)
    outcome: Outcome | None = left_out()

    @property
    def stated(self) -> StatedRatio:
        """The ratio with its interval."""
        return StatedRatio(self.ratio, self.interval)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, which has fewer keys, in another order, where no fresh compile was made."""
        content = super().to_json()
        if self.repetitions is not None:
            return content
        content.setdefault("failure", None)
        first = ("objective", "objectives", "level", "ratio", "interval", "confirmed")
        last = ("improved", "noise_floor", "reason", "failure", "outcome")
        return {name: content[name] for name in (*first, *last) if name in content}


@dataclass(frozen=True, kw_only=True)
class RejectedWinner(NamedPipeline):
    """The winner of the search where another candidate is recommended.

    Attributes:
        ratio: Its confirmed ratio.
        reason: Why it is not recommended.
    """

    name: str = field()
    build: Build = field()
    ratio: StatedRatio | None
    reason: str


@dataclass(frozen=True)
class CaseResult(Record):
    """What winner and baseline take in one case.

    Attributes:
        name: Name of the case.
        weight: Share of the calls.
        throughput: Throughput of the winner over the baseline's; ``None`` where it is not confirmed.
        latency_s: Seconds per inference of the winner.
        baseline_latency_s: Seconds per inference of the baseline.
    """

    name: str
    weight: float
    throughput: StatedRatio | None
    latency_s: Latency | None
    baseline_latency_s: Latency | None


@dataclass(frozen=True)
class RunLimits(Record):
    """The limits of the start that made the result.

    Attributes:
        trials: Most candidates beside the baselines.
        timeout_s: The time limit in seconds; ``None`` without one.
    """

    trials: int | None = left_out()
    timeout_s: float | None = None


@dataclass(frozen=True)
class Reproducer(Record):
    """A folder that shows a wrong pass.

    Attributes:
        passes: The passes that make outputs wrong.
        folder: The folder.
        reason: What is wrong.
    """

    passes: tuple[str, ...]
    folder: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class DeploymentRecord(Record):
    """What ``export`` needs.

    Attributes:
        states: Hashes of the IR, of the network and after every pass.
        expected: Digests of the outputs.
        seed: Seed of the inputs.
        inputs: Shape and type of every input.
        calls: The cases, where there are several functions or sizes.
        ranges: Random values of inputs.
        samples: File with the samples of the user.
        factories: What makes each pass, by its name.
        tolerance: Largest deviation that is allowed.
        reference: What outputs were compared with.
        mean_tolerance: Largest mean deviation that is allowed.
        paths: Import paths of the user's own passes.
        bits: The bits of the outputs; see ``Outputs``.
        kernel_bits: Kernel and digest of what it computes on ``magnitudes``, of every call of an inference in order.
    """

    states: tuple[str, ...]
    expected: tuple[Mapping[str, object], ...]
    seed: int
    inputs: Mapping[str, tuple[Shape, str]]
    calls: tuple[ModelCase, ...] = left_out(())
    ranges: Mapping[str, ValueRange] | None = left_out(or_null=True)
    samples: str | None = left_out(or_null=True)
    factories: Mapping[str, str]
    tolerance: float | None
    reference: Reference | None = left_out()
    mean_tolerance: float | None = left_out(or_null=True)
    paths: tuple[str, ...] = left_out(())
    bits: Mapping[str, str] | None = left_out()
    kernel_bits: tuple[tuple[str, str], ...] = left_out(())


@dataclass(frozen=True, kw_only=True)
class RunResult(MeasuredNetwork):
    """The result of a run, as ``tune --json`` prints it and the run folder has it as ``result.json``.

    Attributes:
        fingerprint: Features of the graph.
        classes: Architecture classes, each with its evidence.
        space: What was searched.
        composition: What the times of kernels decided on Relax, or why nothing was composed; ``None`` on Relay, for
            other objectives than speed, and where no candidate has a pass that schedules single kernels.
        precision: What was decided on the precision of weights, or why nothing was; missing where it was not asked for.
        same_bits: What has the bits that were kept, and what that costs; missing where any bits were allowed.
        baseline: The build to beat.
        baselines: The compiler's levels, as the search measured them.
        best: The winner.
        sequence: The fastest sequence of the catalog; ``None`` where none was measured, all are slower than the
            baseline, or speed is not the objective.
        verdict: The verdict on the winner.
        rejected: The winner of the search where ``best`` is another one. Where ``best`` is the baseline, the verdict
            has the ratio of this candidate.
        cases: With several functions or sizes, what each takes.
        ratios: Confirmed ratios by metric: those of objectives, consumption where it was read; ``twin``, another build
            of the baseline to it, or of a winner that is more than twice as fast as a baseline of more than half a
            second; ``throughput_of_medians``; ``throughput_at_end``, by the last third of the rounds.
        pareto: The Pareto front, as the search measured it.
        trials: All candidates, as the search measured them.
        failures: Number of failed candidates by kind.
        failed: The failed candidates.
        seconds: Wall time by stage: ``apply``, ``build``, ``measure``, ``source``, ``search``, ``rivals``, ``total``.
        rivals: The winner beside the user's other engines; missing where the search was interrupted, and in results of
            earlier versions.
        interrupted: True if the user ended the search.
        reference: What outputs were compared with; earlier versions did not say.
        limits: The limits of the search.
        reproducers: Folders with wrong passes.
        deployment: What ``export`` needs; ``None`` where there is no winner to export.
    """

    fingerprint: Mapping[str, object]
    classes: tuple[ClassLabel, ...]
    space: SearchedSpace
    composition: NoComposition | ComposedPipeline | None = None
    precision: NoPrecision | PrecisionDecision | None = left_out()
    same_bits: KeptBits | None = left_out()
    baseline: Contender
    baselines: tuple[Candidate, ...] = ()
    best: Winner
    sequence: BestOfCatalog | None = None
    verdict: Verdict
    rejected: RejectedWinner | None = None
    cases: tuple[CaseResult, ...] = left_out(())
    ratios: Ratios | None = None
    pareto: tuple[Candidate, ...]
    trials: tuple[Candidate, ...] = ()
    failures: Mapping[str, int]
    failed: tuple[FailedCandidate, ...] = ()
    seconds: Mapping[str, float]
    rivals: RivalComparison | None = left_out()
    interrupted: bool = False
    reference: Reference | None = left_out()
    limits: RunLimits | None = left_out()
    reproducers: tuple[Reproducer, ...] = ()
    deployment: DeploymentRecord | None = None

    @property
    def baseline_name(self) -> str:
        """Name of the baseline, or a word that stands for it."""
        return self.baseline.name or "baseline"

    def ratio_of(self, metric: str) -> StatedRatio | None:
        """Return the ratio of a metric."""
        return (self.ratios or {}).get(metric)

    @property
    def best_is_baseline(self) -> bool:
        """True if the winner is the baseline, as far as the result says."""
        return self.best.source is not None and self.best.source.kind == "baseline"
