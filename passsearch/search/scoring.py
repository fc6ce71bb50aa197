"""The value of a candidate: its gain over the baseline by each objective, and whether it keeps enough throughput."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from passsearch.core import Failure, Interval
from passsearch.evaluate import Built
from passsearch.measure import Ratio
from passsearch.objectives import Objective
from passsearch.search.options import RunOptions
from passsearch.search.records import Scored
from passsearch.search.samplers import REJECTED, values_under_constraint

SAME_BINARY = Ratio(1.0, Interval(1.0, 1.0))
"""Ratio of a binary to itself, whatever pipelines made the two."""


# Where the default build is a hundred times slower, timing it beside every candidate took 13 of a search's 15 minutes.
FAR_FASTER = 2.0
"""Number of times by which a candidate is so much faster than what it is timed beside that this is timed no more than
needed."""


@dataclass(frozen=True)
class Scoring:
    """Compares candidates with the baseline by the objectives of a run.

    Attributes:
        options: The options of the run.
        baseline: The baseline, as measured against itself.
    """

    options: RunOptions
    baseline: Scored

    @property
    def objective(self) -> Objective:
        """The first objective, by which candidates are ranked."""
        return self.options.objectives[0]

    def gain(self, objective: Objective, scored: Scored) -> float:
        """Return how many times better than the baseline a candidate is, by the search's own measurement."""
        gain = objective.gain(self.baseline, scored)
        return math.exp(REJECTED) if gain is None else gain

    def values(self, scored: Scored) -> list[float]:
        """Return the log of the gain by each objective; larger is always better."""
        # Logs, because twice as fast and half as fast are then equally far from the baseline.
        return [math.log(self.gain(objective, scored)) for objective in self.options.objectives]

    def is_baseline_binary(self, built: Built) -> bool:
        """Return whether an artifact is the very binary the baseline is."""
        return built.digest == self.baseline.built.digest

    def is_admissible(self, scored: Scored) -> bool:
        """Return whether a candidate keeps enough throughput, where that is a condition and no objective is speed.

        One that was far too slow to be timed does not, however little is enough: its outputs were compared once only.
        """
        if "not_timed" in scored.conditions:
            return False
        # The ratio and not its interval: one process has no interval. The confirmation decides whether it is certain.
        least = self.options.least_throughput
        return least <= 0 or (scored.ratio is not None and scored.ratio.value >= least)

    def rank(self, candidates: Iterable[Scored]) -> list[Scored]:
        """Return the admissible candidates, the best by the first objective first; further ones decide between equals.

        Without them an equal could win that the Pareto front does not have.
        """
        admissible = [scored for scored in candidates if self.is_admissible(scored)]
        return sorted(admissible, key=self.values, reverse=True)

    def trial_values(self, outcome: Scored | Failure) -> tuple[list[float], Mapping[str, float]]:
        """Return the values and the attributes of an Optuna trial."""
        # A value and not Optuna's state FAIL, which its samplers ignore: they shall learn to avoid such candidates.
        if isinstance(outcome, Failure):
            return [REJECTED] * len(self.options.objectives), {}
        values = self.values(outcome)
        if not self.is_constrained:
            return values, {}
        assert outcome.ratio is not None
        least = self.options.keep_throughput
        value, attributes = values_under_constraint(values[0], ratio=outcome.ratio.value, least=least)
        return [value], attributes

    @property
    def is_constrained(self) -> bool:
        """True if throughput is a condition of a single objective, which the sampler sees too."""
        return self.options.least_throughput > 0 and len(self.options.objectives) == 1
