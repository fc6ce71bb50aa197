"""A network beside the other engines that the user has."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from passsearch.results.parts import Interval, StatedRatio, says_nothing
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
        is_accident: True if a signal from outside ended a process; the same command measures it again.
    """

    failure: str
    is_accident: bool = left_out(False)


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
    def ratios(self) -> tuple[StatedRatio, StatedRatio]:
        """Both ratios."""
        return self.ratio, self.ratio_of_medians

    @property
    def lowest(self) -> StatedRatio:
        """The lower of the two ratios."""
        return min(self.ratios, key=lambda ratio: ratio.ratio or 0.0)

    @property
    def is_disputed(self) -> bool:
        """True if one ratio says that the engine is faster, and the other one that the network is."""
        return len({(ratio.ratio or 0.0) > 1 for ratio in self.ratios}) > 1

    @property
    def is_ahead(self) -> bool:
        """True if the engine is faster by both ratios, and by the whole interval of one."""
        return not self.is_disputed and any(high is not None and high < 1 for _, high in self._intervals)

    @property
    def is_behind(self) -> bool:
        """True if the network is faster by both ratios, and by the whole interval of one."""
        return not self.is_disputed and any(low is not None and low > 1 for low, _ in self._intervals)

    @property
    def _intervals(self) -> list[Interval]:
        return [ratio.interval for ratio in self.ratios if ratio.interval and not says_nothing(ratio.interval)]


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
    def has_accident(self) -> bool:
        """True if an engine was not measured because of an accident."""
        return any(isinstance(rival, FailedRival) and rival.is_accident for rival in self.engines.values())

    @property
    def hardest(self) -> tuple[str, Rival] | None:
        """Name and row of the engine over which the network has the lowest throughput; ``None`` without any."""
        return min(self.measured.items(), key=lambda item: item[1].lowest.ratio or 0.0, default=None)
