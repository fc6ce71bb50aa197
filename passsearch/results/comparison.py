"""The document of a comparison."""

from dataclasses import dataclass

from passsearch.results.candidate import Candidate, NamedPipeline, StatedFailure
from passsearch.results.parts import Compiler, Interval, Positive, StatedRatio
from passsearch.results.record import Record, left_out, placed
from passsearch.results.setup import MeasuredNetwork


@dataclass(frozen=True, kw_only=True)
class ComparedPipeline(Candidate):
    """A pipeline of a comparison with its measurement.

    Attributes:
        toolchain: Name of the toolchain.
        ratio_of_medians: The ratio by medians instead of the fastest samples.
        improved: True if it is certainly faster than the baseline.
    """

    toolchain: str = placed("", after="build")
    ratio_of_medians: StatedRatio | None = placed(None, after="ratio")
    improved: bool = placed(False, after="outputs")


@dataclass(frozen=True, kw_only=True)
class FailedPipeline(NamedPipeline):
    """A pipeline of a comparison that failed.

    Attributes:
        failure: The failure.
    """

    failure: StatedFailure


@dataclass(frozen=True, kw_only=True)
class Pair(Record):
    """Two pipelines of a comparison.

    Attributes:
        first: The first one.
        second: The second one.
        rows: Their places among the rows.
        level: Level of the interval, corrected for the number of pairs.
        ratio: Throughput of the second over that of the first.
        interval: The confidence interval of ``ratio``.
        verdict: ``faster``, ``slower``, ``same binary`` or ``no significant difference``, of the second.
    """

    first: str
    second: str
    rows: tuple[int, int]
    level: float
    ratio: Positive | None = None
    interval: Interval | None = None
    verdict: str

    @property
    def stated(self) -> StatedRatio:
        """The ratio with its interval."""
        return StatedRatio(self.ratio, self.interval)


@dataclass(frozen=True, kw_only=True)
class Comparison(MeasuredNetwork):
    """A comparison, as ``compare --json`` and ``audit --aa --json`` print it.

    Attributes:
        baseline: Name of the baseline.
        protocol: ``paired``, or ``cf22`` for the paper's.
        runs: Runs in a row of each pipeline, by the paper's protocol.
        cache: ``warm`` or ``flushed``.
        level: Level of the intervals to the baseline.
        processes: Number of processes that timed all pipelines.
        noise_floor: Largest gain that noise may make; ``None`` for one process.
        rows: The pipelines, those that failed too.
        pairs: The verdict on every two pipelines.
        toolchains: All compilers, where there are several.
    """

    baseline: str
    protocol: str
    runs: int | None = left_out()
    cache: str
    level: float
    processes: int
    noise_floor: float | None
    rows: tuple[FailedPipeline | ComparedPipeline, ...]
    pairs: tuple[Pair, ...]
    toolchains: tuple[Compiler, ...] = left_out(())

    @property
    def baseline_name(self) -> str:
        """Name of the baseline."""
        return self.baseline

    @property
    def measured(self) -> list[ComparedPipeline]:
        """The pipelines that could be measured."""
        return [row for row in self.rows if isinstance(row, ComparedPipeline)]

    @property
    def failed(self) -> list[FailedPipeline]:
        """The pipelines that failed."""
        return [row for row in self.rows if isinstance(row, FailedPipeline)]
