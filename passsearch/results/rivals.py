"""A network beside the other engines that the user has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from passsearch.results.parts import Interval, StatedRatio
from passsearch.results.record import Record, left_out


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
        version: Version of the engine.
    """

    ratio: StatedRatio
    ratio_of_medians: StatedRatio
    latency_s: MeanLatency
    rival_latency_s: MeanLatency
    version: str = left_out("")

    @property
    def lowest(self) -> float:
        """The lower of the two ratios."""
        return min(ratio.ratio or 0.0 for ratio in (self.ratio, self.ratio_of_medians))

    @property
    def is_ahead(self) -> bool:
        """True if the engine is faster by the whole interval of either estimate."""
        ends = (ratio.interval[1] if ratio.interval else None for ratio in (self.ratio, self.ratio_of_medians))
        return any(end is not None and end < 1 for end in ends)


@dataclass(frozen=True)
class RivalComparison(Record):
    """A network and other engines, timed in the same rounds.

    Attributes:
        engines: The engines by name.
        reason: Why there are none.
        processes: Number of processes of each engine.
        others_percent: Percentage of the cores' time that other processes and the host took.
        seconds: Wall time of the comparison.
    """

    engines: Mapping[str, FailedRival | Rival] = field(default_factory=dict)
    reason: str = ""
    processes: int = 0
    others_percent: float = 0.0
    seconds: float = 0.0

    @property
    def measured(self) -> dict[str, Rival]:
        """The engines that were measured."""
        return {name: rival for name, rival in self.engines.items() if isinstance(rival, Rival)}

    @property
    def hardest(self) -> tuple[str, Rival] | None:
        """Name and row of the engine over which the network has the lowest throughput; ``None`` without any."""
        return min(self.measured.items(), key=lambda item: item[1].lowest, default=None)
