"""A genetic algorithm on decoded sequences: order crossover and edits where keys alone would only be mixed."""

from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution

from passsearch.search.samplers.sequences import Distributions, Genes, crossed, edited

POPULATION, TOURNAMENT = 12, 3
CROSSOVER, FURTHER = 0.7, 0.4
"""Chances that two parents are crossed, and that one more edit follows an edit."""


class PassGASampler(optuna.samplers.BaseSampler):
    """Steady state: the best trials so far are the population, parents are chosen by tournament."""

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
        """All keys together, from the first population on."""
        return self._distributions if len(_finished(study)) >= 2 else {}

    def sample_relative(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """A child of the best."""
        if not search_space:
            return {}
        population = _finished(study)[:POPULATION]
        child = Genes.of(self._parent(population).params)
        if self._rng.random() < CROSSOVER:
            other = Genes.of(self._parent(population).params)
            child = Genes(crossed(child.steps, other.steps, rng=self._rng), child.options)
        child = edited(child, self._distributions, rng=self._rng)
        while self._rng.random() < FURTHER:
            child = edited(child, self._distributions, rng=self._rng)
        return child.keys(self._distributions)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """At random, for the first ones."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def _parent(self, population: list[optuna.trial.FrozenTrial]) -> optuna.trial.FrozenTrial:
        """The population is sorted, so the smallest of some places is the tournament's winner."""
        return population[int(self._rng.integers(len(population), size=TOURNAMENT).min())]


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    """Different candidates, the best first."""
    trials = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
    unique: dict[Genes, optuna.trial.FrozenTrial] = {}
    for trial in trials:
        unique.setdefault(Genes.of(trial.params), trial)
    return sorted(unique.values(), key=lambda trial: -trial.values[0])
