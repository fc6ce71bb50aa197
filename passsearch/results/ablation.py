"""The document of an ablation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from passsearch.results.candidate import AppliedPipeline, Build, StatedFailure
from passsearch.results.parts import Device, Positive, StatedRatio
from passsearch.results.precision import PrecisionWorth
from passsearch.results.record import Allowed, Record, key, left_out
from passsearch.results.run import DeploymentRecord

StepKind: TypeAlias = Literal["ladder", "without"]
Worth: TypeAlias = Literal["gain", "loss", "nothing", "undecided", "needed"]


@dataclass(frozen=True)
class TimedRatio(StatedRatio):
    """A ratio that was measured in repetitions."""

    ratio: Positive = field()
    interval: tuple[float, float] | None = field()


@dataclass(frozen=True, kw_only=True)
class AblationStep(Record):
    """One step of an ablation.

    Attributes:
        kind: ``ladder`` for a pass that is added, ``without`` for one that is left out.
        name: Name of the step.
        subject: The pass; ``None`` for the start.
        passes: The passes of the pipeline.
        throughput: Throughput over the baseline's.
        compile_time: The baseline's compile time over that of the step.
        latency_s: Seconds per inference.
        fastest_s: Seconds of the fastest inference, which the times of kernels compare with.
        compile_s: Seconds of a compile.
        gain: What the pass multiplies, by metric.
        kernels_changed: Number of kernels that differ from those of the step before, or of the winner.
        changed_kernels: Their names.
        same_binary_as: The first step with the same binary.
        failure: The failure of a step that does not build.
        worth: What the pass is worth.
    """

    kind: StepKind
    name: str
    subject: str | None = key("pass")
    passes: tuple[str, ...]
    throughput: TimedRatio | None
    compile_time: TimedRatio | None
    latency_s: float | None
    fastest_s: float | None = None
    compile_s: float | None = None
    gain: Annotated[Mapping[str, TimedRatio | None], Allowed(required=("throughput", "compile_time"))]
    kernels_changed: int | None
    changed_kernels: tuple[str, ...] = ()
    same_binary_as: str | None
    failure: StatedFailure | None
    worth: Worth


@dataclass(frozen=True, kw_only=True)
class MinimalForm(Record):
    """The shortest form of a winner that ``export --minimal`` writes.

    Attributes:
        pipeline: The pipeline.
        passes: Its passes.
        same_binary: True if it is the winner's binary.
        throughput: Its throughput over the winner's; ``None`` for the same binary.
        deployment: What ``export`` needs.
    """

    pipeline: str
    passes: tuple[str, ...]
    same_binary: bool
    throughput: TimedRatio | None
    deployment: DeploymentRecord


@dataclass(frozen=True)
class KernelTimes(Record):
    """Seconds that kernels take in one inference, by name.

    Attributes:
        baseline: Kernels of the baseline.
        winner: Kernels of the winner.
    """

    baseline: Mapping[str, float]
    winner: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class AblationEvidence(Record):
    """How an ablation was measured.

    Attributes:
        device: The machine.
        target: TVM's target.
        processes: Number of processes that timed every binary.
        compiles: Number of fresh compiles.
        level: Level of the intervals of gains.
        noise_floor: Largest gain that noise may make.
        measured_at: Time of the last measurement, in ISO 8601 and UTC.
    """

    device: Device
    target: str | None = None
    processes: int
    compiles: int = 0
    level: float | None = None
    noise_floor: float | None = None
    measured_at: str


@dataclass(frozen=True, kw_only=True)
class Ablation(Record):
    """An ablation, as ``ablate --json`` prints it and the run folder has it as ``ablation.json``.

    Attributes:
        schema_version: Version of the form.
        objective: Objective of the run.
        baseline: Name of the baseline.
        passes: Passes of the winner that change the IR.
        build: The options of its build.
        rows: The steps.
        worth_nothing: Passes without which nothing is lost.
        complete: True if no time limit cut the measurement off.
        measured: How it was measured.
        until_decided: True if it ended as soon as all was decided.
        dropped: Passes that change nothing in the IR.
        minimal: The shortest form of the winner; ``None`` if it cannot be exported.
        kernels: Times of kernels; ``None`` if they were not taken.
        precision: What each layer in fewer bits is worth; missing where none was decided on.
        network: Source of the network.
        winner: The winner of the run.
        headline: The result in a sentence.
    """

    schema_version: Literal[1]
    objective: str
    baseline: str
    passes: tuple[str, ...]
    build: Build
    rows: tuple[AblationStep, ...]
    worth_nothing: tuple[str, ...]
    complete: bool
    measured: AblationEvidence
    until_decided: bool | None = left_out(or_null=True)
    dropped: tuple[str, ...]
    minimal: MinimalForm | None
    kernels: KernelTimes | None
    precision: PrecisionWorth | None = left_out()
    network: str
    winner: AppliedPipeline
    headline: str

    def steps(self, kind: StepKind) -> list[AblationStep]:
        """Return the steps of one kind."""
        return [row for row in self.rows if row.kind == kind]
