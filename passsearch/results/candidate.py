"""Candidates in documents: what was built, how its outputs agree, and its measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

from passsearch.results.parts import Interval, Positive, StatedRatio
from passsearch.results.record import Allowed, Record, left_out

Energy: TypeAlias = Annotated[float, Allowed(most=1e300)]


@dataclass(frozen=True)
class Build(Record):
    """The options of the compiler's own build.

    Attributes:
        opt_level: Level of the compiler's own pipeline.
        required: Passes that the build runs at every level.
        disabled: Passes that the build never runs.
        config: Configuration of the pass context.
    """

    opt_level: int
    required: tuple[str, ...] = ()
    disabled: tuple[str, ...] = ()
    config: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NamedPipeline(Record):
    """A pipeline with its build.

    Attributes:
        name: Name of a baseline or of a named sequence, else empty.
        pipeline: The passes; empty for none but those of the build.
        build: The options of the build.
    """

    name: str | None = None
    pipeline: str
    build: Build = Build(0)


@dataclass(frozen=True, kw_only=True)
class StatedFailure(Record):
    """A failure.

    Attributes:
        kind: ``compile_error``, ``crash``, ``timeout``, ``oom``, ``wrong_result``, ``other_bits``, ``unstable`` or
            ``infra``.
        stage: ``apply``, ``build`` or ``measure``.
        step: The pass that failed, where one did.
        reason: One line for people.
        log: File with the whole traceback, relative to the run folder.
    """

    kind: str
    stage: str = ""
    step: str = ""
    reason: str
    log: str = left_out("")


@dataclass(frozen=True, kw_only=True)
class AppliedPipeline(Record):
    """A pipeline with its build.

    Attributes:
        pipeline: The passes; empty for none but those of the build.
        build: The options of the build.
    """

    pipeline: str
    build: Build


@dataclass(frozen=True, kw_only=True)
class FailedCandidate(StatedFailure, AppliedPipeline):
    """A candidate that failed, with the failure."""

    build: Build = Build(0)


@dataclass(frozen=True)
class Latency(Record):
    """Seconds per inference.

    Attributes:
        median: Mean over the processes of their medians.
        interval: Its confidence interval; ``None`` for one process.
        samples: All samples.
        n: Number of samples.
        processes: Number of processes; ``None`` in results of earlier versions.
    """

    median: float | None = None
    interval: Interval | None = None
    samples: tuple[float, ...] = ()
    n: int | None = None
    processes: int | None = None


@dataclass(frozen=True)
class Reading(Record):
    """What a sensor read over long windows.

    Attributes:
        median: Median over the repetitions of the medians.
        max: Largest value.
        start: First value, where one was read.
        end: Last value, where one was read.
    """

    median: float | None = None
    max: float | None = None
    start: float | None = left_out(or_null=True)
    end: float | None = left_out(or_null=True)


@dataclass(frozen=True)
class Memory(Record):
    """Bytes of memory.

    Attributes:
        plan: The compiler's static plan.
        peak_rss: Largest memory of the process.
        device: Memory of the device.
    """

    plan: float | None = None
    peak_rss: float | None = None
    device: float | None = None


@dataclass(frozen=True)
class Deviation(Record):
    """The deviation on an input that allows more than others.

    Attributes:
        deviation: Largest deviation.
        tolerance: The deviation that is allowed.
    """

    deviation: float
    tolerance: float


@dataclass(frozen=True)
class Outputs(Record):
    """How outputs agree with the reference's.

    Attributes:
        deviation: Largest deviation, as a share of the largest output; ``None`` where nothing ran.
        tolerance: The deviation that is allowed.
        top1_agreement: Share of the inputs that get the reference's class.
        cases: Number of inputs that were compared.
        unavailable: Reason why a value is ``None``, by key.
        unstable: Deviations on edge inputs on which rounding changes the reference itself.
        dropped: Number of values that are NaN or infinite in the reference and no longer, by edge input.
        dropped_by_import: True if the import without passes drops as many.
        dropped_by: Operators of the network that drop them there.
        spread: Number of further values that are NaN or infinite, by edge input.
        bits: Digest of the bits of all outputs by input of the check, ``magnitudes`` among them: floats of mixed
            magnitude, on which another order of a sum gives other bits. ``None`` where nothing ran, and in results of
            earlier versions, which did not record it.
    """

    deviation: float | None
    tolerance: float
    top1_agreement: float | None = None
    cases: int | None = None
    unavailable: Mapping[str, str] | None = None
    unstable: Mapping[str, Deviation] | None = left_out()
    dropped: Mapping[str, int] | None = left_out()
    dropped_by_import: bool = left_out(False)
    dropped_by: tuple[str, ...] = left_out(())
    spread: Mapping[str, int] | None = left_out()
    bits: Mapping[str, str] | None = left_out()


@dataclass(frozen=True, kw_only=True)
class Measurement(Record):
    """A measurement; what could not be read is ``None``, with the reason under ``unavailable``.

    Attributes:
        latency_s: Seconds per inference.
        throughput_per_s: Samples per second.
        compile_s: Seconds to apply the pipeline and to build.
        apply_s: The part of them that applies the pipeline.
        memory_bytes: Memory.
        artifact_bytes: Size of the built files.
        launches: Kernels that one inference starts on a GPU; left out on a CPU.
        power_w: Power in watts.
        energy_j: Joules per inference.
        temperature_c: Temperature in degrees Celsius.
        utilisation: Share of the time in which a GPU ran a kernel.
        unavailable: Reason why a metric is ``None``, by metric.
        conditions: Conditions while it was timed: threads, load, clocks and others.
    """

    latency_s: Latency | None = None
    throughput_per_s: float | None = None
    compile_s: Positive | None = None
    apply_s: float | None = None
    memory_bytes: Memory | None = None
    artifact_bytes: int | None = None
    launches: int | None = left_out()
    power_w: Reading | None = None
    energy_j: Energy | None = None
    temperature_c: Reading | None = None
    utilisation: Reading | None = None
    unavailable: Mapping[str, str] | None = None
    conditions: Mapping[str, object] | None = None


@dataclass(frozen=True, kw_only=True)
class _BuiltPipeline(NamedPipeline):
    """A pipeline that was built.

    Attributes:
        state: Hash of the IR.
        binary: Digest of the built files.
        ratio: Throughput as a multiple of the baseline's.
        outputs: How its outputs agree with the reference's.
    """

    state: str | None = None
    binary: str | None = None
    ratio: StatedRatio | None = None
    outputs: Outputs | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate(Measurement, _BuiltPipeline):
    """A candidate with its measurement.

    Attributes:
        recalled: True if an earlier run measured it; only in results of earlier versions.
    """

    recalled: bool = left_out(False)
