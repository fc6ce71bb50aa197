"""What got slower between two engines, versions or pipelines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from passsearch.results.parts import Device, StatedRatio
from passsearch.results.record import Record
from passsearch.results.rivals import MeanLatency

RegressionVerdict: TypeAlias = Literal["slower", "fails", "faster", "no certain difference"]
MatchedBy: TypeAlias = Literal["operator and shape", "first operator and input", "first operator"]


@dataclass(frozen=True, kw_only=True)
class RegressionSide(Record):
    """One of the two that are compared.

    Attributes:
        name: The user's text.
        pipeline: The passes; ``None`` for an engine that has none.
        versions: Versions of what runs, by package.
        settings: Settings that differ from the engine's defaults.
        threads: Number of threads.
        latency_s: Seconds per inference.
        throughput_per_s: Items per second, by the fastest inferences.
        compile_s: Seconds to compile: once for TVM, by the first load for an engine that compiles while it loads.
        load_s: Seconds to load, by process.
        memory_bytes: Memory that loading and the first inference add.
        artifact_bytes: Size of the files that it loads.
        deviation: Largest deviation of its outputs, as a share of the reference's largest.
        failure: Why it has no result; empty if it has one.
        unavailable: Reason for each value that is ``null``.
    """

    name: str
    pipeline: str | None
    versions: Mapping[str, str]
    settings: Mapping[str, object]
    threads: int | None
    latency_s: MeanLatency | None
    throughput_per_s: float | None
    compile_s: float | None
    load_s: tuple[float, ...]
    memory_bytes: int | None
    artifact_bytes: int | None
    deviation: float | None
    failure: str
    unavailable: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class KernelDifference(Record):
    """Kernels of both sides that compute the same, by the profilers.

    Attributes:
        operator: The operator.
        shape: Shapes of what it computes on, or of the first input alone, as ``matched_by`` says; ``None`` where
            kernels of several shapes belong together.
        matched_by: What the kernels of both sides have in common; ``None`` where one side has none.
        kernels_before: Names of the kernels.
        kernels_after: The same of the other side.
        calls_before: Number of calls.
        calls_after: The same of the other side.
        before_s: Seconds of all calls; ``None`` where the side has no such kernel.
        after_s: The same of the other side.
        difference_s: Seconds that it takes longer.
        share: The difference as a share of that of the whole inference; ``None`` where that is not positive.
    """

    operator: str
    shape: str | None
    matched_by: MatchedBy | None
    kernels_before: tuple[str, ...]
    kernels_after: tuple[str, ...]
    calls_before: int
    calls_after: int
    before_s: float | None
    after_s: float | None
    difference_s: float
    share: float | None


@dataclass(frozen=True, kw_only=True)
class Exchange(Record):
    """The slower side with one pass or one setting of the other.

    Attributes:
        text: The exchange in words.
        kind: What is exchanged.
        size: Number of passes or settings that are exchanged together.
        ratio: Time of the slower side over that with the exchange; above 1 is an exchange that helps.
        explained: Share of the slowdown that the exchange removes; ``None`` without a time.
        certain: True if its interval lies above 1.
        failure: Why it has no time; empty if it has one.
    """

    text: str
    kind: Literal["pass", "setting"]
    size: int
    ratio: StatedRatio | None
    explained: float | None
    certain: bool
    failure: str


@dataclass(frozen=True, kw_only=True)
class Regression(Record):
    """The result of ``regress``.

    Attributes:
        schema: Version of the form.
        measured_at: When, in ISO 8601 and UTC.
        model: Name of the network.
        source: What the user called it.
        batch: Items of an inference.
        device: The machine.
        threads: Threads of each side.
        threshold: Slowdown that counts, as a share.
        before: The side of ``--from``.
        after: The side of ``--to``.
        verdict: The answer.
        regressed: True if ``after`` is certainly slower, or fails.
        ratios: Of the second over the first: ``fastest`` and ``medians`` (seconds of an inference), ``load``,
            ``memory_bytes``; ``None`` where one of both has no value.
        confirmation: The ratios of times in further processes, which a regression needs; ``None`` without them.
        processes: Processes of each side.
        reference: What outputs are compared with.
        others_percent: Share of the cores' time that others took.
        kernels: Kernels by their difference; ``None`` with a reason.
        no_kernels: The reason; empty if there are kernels.
        outside_s: Part of the difference that no kernel shows; ``None`` without kernels.
        exchanges: Exchanges of one pass or setting, the best first; ``None`` with a reason.
        no_exchanges: The reason, also for missing further ones; empty if there are exchanges.
        remarks: What a reader must know: that a side is rebuilt by another TVM, or that both are one binary.
        named: The pass or setting that explains most and the kernel that lost most; ``None`` for what is unknown.
        seconds: Wall time.
    """

    schema: str
    measured_at: str
    model: str
    source: str
    batch: int
    device: Device
    threads: int
    threshold: float
    before: RegressionSide
    after: RegressionSide
    verdict: RegressionVerdict
    regressed: bool
    ratios: Mapping[str, StatedRatio | None]
    confirmation: Mapping[str, StatedRatio] | None
    processes: int
    reference: str
    others_percent: float
    kernels: tuple[KernelDifference, ...] | None
    no_kernels: str
    outside_s: float | None
    exchanges: tuple[Exchange, ...] | None
    no_exchanges: str
    remarks: tuple[str, ...]
    named: Mapping[str, str | None]
    seconds: float
