"""The document of a network that was compiled without a search."""

from collections.abc import Mapping
from dataclasses import dataclass

from passsearch.results.candidate import StatedFailure
from passsearch.results.network import Reference
from passsearch.results.parts import Interval, StatedRatio
from passsearch.results.record import Record


@dataclass(frozen=True)
class ChosenPipeline(Record):
    """The pipeline that was built.

    Attributes:
        name: Its name; empty for one without a name.
        passes: Its passes.
    """

    name: str
    passes: str


@dataclass(frozen=True)
class TriedPipeline(Record):
    """A pipeline that was tried.

    Attributes:
        name: Its name; empty for one without a name.
        pipeline: Its passes.
        ratio: Throughput over that of the first; ``None`` where it was not timed.
        failure: Why it does not build.
    """

    name: str
    pipeline: str
    ratio: float | None
    failure: StatedFailure | None


@dataclass(frozen=True)
class MeanLatency(Record):
    """Seconds per inference.

    Attributes:
        median: Mean over the processes of their medians.
        interval: Its confidence interval.
    """

    median: float
    interval: Interval | None


@dataclass(frozen=True)
class FailedRival(Record):
    """An engine beside which nothing was measured.

    Attributes:
        failure: Why.
    """

    failure: str


@dataclass(frozen=True)
class Rival(Record):
    """An engine that was measured beside the network.

    Attributes:
        ratio: Throughput of the network over the engine's, by the fastest runs.
        ratio_of_medians: The same by medians.
        latency_s: Seconds per inference of the network.
        rival_latency_s: Seconds per inference of the engine.
    """

    ratio: StatedRatio
    ratio_of_medians: StatedRatio
    latency_s: MeanLatency
    rival_latency_s: MeanLatency

    @property
    def is_ahead(self) -> bool:
        """True if the engine is faster by the whole interval of either estimate."""
        ends = (ratio.interval[1] if ratio.interval else None for ratio in (self.ratio, self.ratio_of_medians))
        return any(end is not None and end < 1 for end in ends)


@dataclass(frozen=True, kw_only=True)
class Compilation(Record):
    """A network that was compiled without a search, as ``compile --json`` prints it.

    Attributes:
        schema: Version of the form.
        compiled_at: Time of the compilation, in ISO 8601 and UTC.
        folder: The folder with the script, the network and the build.
        model: Source of the network.
        toolchain: Name of the toolchain.
        target: TVM's target.
        pipeline: The pipeline that was built.
        classes: Names of the architecture classes.
        tried: The pipelines that were tried.
        reference: What outputs were compared with.
        seconds: Wall time of ``import``, ``build`` and ``rivals``, the comparison with other engines.
        rivals: The engines beside it, by name.
        rivals_reason: Why there are none.
        others_percent: Percentage of the cores' time that other processes and the host took during the comparison.
        python: The interpreter that runs the deployment; empty where this machine cannot run it.
    """

    schema: str
    compiled_at: str
    folder: str
    model: str
    toolchain: str
    target: str
    pipeline: ChosenPipeline
    classes: tuple[str, ...]
    tried: tuple[TriedPipeline, ...]
    reference: Reference
    seconds: Mapping[str, float]
    rivals: Mapping[str, FailedRival | Rival]
    rivals_reason: str
    others_percent: float = 0.0
    python: str = ""

    @property
    def measured_rivals(self) -> dict[str, Rival]:
        """The engines that were measured."""
        return {name: rival for name, rival in self.rivals.items() if isinstance(rival, Rival)}
