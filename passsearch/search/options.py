"""The options of one run, stated once and passed on."""

from collections.abc import Sequence
from dataclasses import dataclass

from passsearch.core import LEAST_GAIN
from passsearch.objectives import Objective
from passsearch.search.samplers import AUTO


@dataclass(frozen=True)
class RunOptions:
    """The options of one run, as ``api.tune`` takes them.

    Attributes:
        objectives: One objective, or two for a Pareto front.
        trials: Candidates to evaluate beyond the baselines; sequences that lead to a known state are free.
        seed: Seed of the sampler.
        repetitions: Fresh compiles that confirm the winner; 0 leaves it unconfirmed.
        least_gain: Share of throughput that a search must be able to add to the recommended sequence; 0 for any.
        keep_throughput: Least throughput as a share of the baseline's, where no objective is speed.
        passes: Names of the only passes to search; ``None`` leaves them to the network's classes.
        additional: Names of further passes to search.
        sampler: Name of the strategy.
        remember: True to use and extend the fact cache.
    """

    objectives: tuple[Objective, ...]
    trials: int
    seed: int = 0
    repetitions: int = 0
    keep_throughput: float = 0.98
    least_gain: float = LEAST_GAIN
    passes: Sequence[str] | None = None
    additional: Sequence[str] = ()
    sampler: str = AUTO
    remember: bool = True

    @property
    def least_throughput(self) -> float:
        """Least throughput as a share of the baseline's; 0 where an objective is speed."""
        is_speed = any(objective.is_speed for objective in self.objectives)
        return 0.0 if is_speed else self.keep_throughput

    @property
    def requested_passes(self) -> tuple[str, ...]:
        """Names of all passes that the user asked for."""
        return tuple(dict.fromkeys((*(self.passes or ()), *self.additional)))
