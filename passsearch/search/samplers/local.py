"""Hill climbing on sequences, from the best known: at first those the search was started with, TVM's own among them."""

from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution

from passsearch.search.samplers.sequences import Distributions, Genes, edited

BEST = 3
"""Sequences that are improved on in turn."""
EDITS = 100
"""Most edits in a row; in a space where all was asked none leads to anything new."""


class LocalSampler(optuna.samplers.BaseSampler):
    """One edit of one of the best sequences that was not asked before."""

    def __init__(self, distributions: Distributions, *, seed: int | None = None) -> None:
        """Take the keys of a ``Space``."""
        self._distributions = dict(distributions)
        self._rng = np.random.default_rng(seed)
        self._random = optuna.samplers.RandomSampler(seed=seed)

    def reseed_rng(self) -> None:
        """For workers of one study."""
        self._rng = np.random.default_rng()
        self._random.reseed_rng()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """All keys together, once there is something to start from."""
        return self._distributions if any(each.state.is_finished() for each in study.get_trials(deepcopy=False)) else {}

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A neighbour; further and further away while all that are near were asked."""
        if not search_space:
            return {}
        trials = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        asked = {Genes.of(each.params): each.values[0] for each in trials}
        best = sorted(asked, key=lambda genes: -asked[genes])[:BEST]
        child = best[self._rng.integers(len(best))]
        for _ in range(EDITS):
            if child not in asked:
                break
            child = edited(child, self._distributions, rng=self._rng)
        return child.keys(self._distributions)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """At random, for the first one."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)
