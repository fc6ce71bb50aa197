"""A strategy that knows the graph: asks only for states that are not measured, the most promising first.

What a state promises is learned from those measured so far by a Gaussian process over what states consist of (operators
with their layouts, groups, constants): the next one has the largest expected improvement (Jones, Schonlau and Welch,
Efficient global optimization of expensive black-box functions, Journal of Global Optimization 13, 1998).

Where throughput is to be kept, a second process learns what keeps it; the improvement counts times the probability of
that (Gardner et al., Bayesian optimization with inequality constraints, ICML 2014).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial
from scipy.linalg import cho_solve, cholesky
from scipy.spatial.distance import cdist
from scipy.stats import norm

from passsearch.search.graph_space import LEVEL, STATE
from passsearch.search.samplers.telling import GAIN, MARGIN

Vector: TypeAlias = npt.NDArray[np.float64]
Choice: TypeAlias = tuple[int, int]
"""Number of a state, and level of the build that follows."""

FAR = 0.1
"""A margin; how much farther from the least tells nothing more."""
FEWEST = 2
"""Measured states from which something can be learned."""
LENGTHS, LIKENESSES, NOISES = (0.5, 1.0, 2.0, 4.0), (0.1, 0.5, 0.9), (1e-4, 1e-2, 1e-1)
"""What the process's parameters are chosen from: length scale in median distances, how alike two levels are, noise."""


class GraphSampler(optuna.samplers.BaseSampler):
    """For a ``GraphSpace``: the keys are a state's number and a build level."""

    def __init__(
        self,
        distributions: Callable[[], Mapping[str, BaseDistribution]],
        census: Callable[[int], Mapping[str, int]],
        *,
        seed: int | None = None,
    ) -> None:
        """Take what is known of the graph.

        Args:
            distributions: The keys; states are added while a graph grows.
            census: What a state consists of, counted.
            seed: Of the random choices.
        """
        self._distributions, self._census = distributions, census
        self._counts: dict[int, Mapping[str, int]] = {}
        self._rng = np.random.default_rng(seed)

    def reseed_rng(self) -> None:
        """For workers of one study."""
        self._rng = np.random.default_rng()

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Both keys together."""
        return dict(self._distributions())

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """The most promising unmeasured choice; of equal ones any."""
        trials = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        measured = {(each.params[STATE], each.params[LEVEL]): each for each in trials}
        left = [choice for choice in self.choices() if choice not in measured]
        if not left:
            state, level = next(iter(measured))
        elif len(measured) < FEWEST:
            state, level = left[self._rng.integers(len(left))]
        else:
            promise = self._promise(measured, left)
            best = np.flatnonzero(promise >= promise.max() * (1 - 1e-9))
            state, level = left[best[self._rng.integers(len(best))]]
        return {STATE: state, LEVEL: level}

    def choices(self) -> list[Choice]:
        """All there are to measure."""
        kinds: Any = self._distributions()
        return list(product(range(kinds[STATE].high + 1), kinds[LEVEL].choices))

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Never needed: both keys are chosen together."""
        raise NotImplementedError

    def _promise(self, measured: Mapping[Choice, FrozenTrial], left: Sequence[Choice]) -> Vector:
        features = self._features([*measured, *left])
        levels = np.array([level for _, level in [*measured, *left]])
        values = np.array([each.user_attrs.get(GAIN, each.values[0]) for each in measured.values()])
        worked = values[values > values.max() - 3]  # a failure says that it is bad, not how bad
        mean, deviation = _posterior(features, levels, values=np.maximum(values, worked.min()))
        if not any(MARGIN in each.user_attrs for each in measured.values()):
            return _improvement(mean, deviation, best=values.max())
        margins = np.array([each.user_attrs.get(MARGIN, -FAR) for each in measured.values()])
        above, spread = _posterior(features, levels, values=np.clip(margins, -FAR, FAR))
        kept = values[margins >= 0]
        improvement = _improvement(mean, deviation, best=kept.max() if len(kept) else worked.min())
        keeps: Vector = norm.cdf(above / spread)
        return improvement * keeps

    def _features(self, choices: Sequence[Choice]) -> Vector:
        for state, _ in choices:
            if state not in self._counts:
                self._counts[state] = self._census(state)
        names = sorted({name for state, _ in choices for name in self._counts[state]})
        counts = np.array([[self._counts[state].get(name, 0) for name in names] for state, _ in choices], float)
        scaled = np.log1p(counts)
        spread = scaled.std(axis=0) if names else np.ones(0)
        features: Vector = scaled[:, spread > 0] / spread[spread > 0]
        return features


def _improvement(mean: Vector, deviation: Vector, *, best: float) -> Vector:
    """The expected improvement over the best."""
    gap = mean - best
    ahead = gap / deviation
    improvement: Vector = gap * norm.cdf(ahead) + deviation * norm.pdf(ahead)
    return np.maximum(improvement, 0)


def _posterior(features: Vector, levels: npt.NDArray[Any], *, values: Vector) -> tuple[Vector, Vector]:
    """Mean and deviation at the points without a value, which come last; parameters by marginal likelihood."""
    known = len(values)
    distances = cdist(features, features[:known]) if features.shape[1] else np.zeros((len(features), known))
    typical = np.median(distances[distances > 0]) if (distances > 0).any() else 1.0
    alike = levels[:, None] == levels[None, :known]
    centre, scale = values.mean(), max(values.std(), 1e-6)
    targets = (values - centre) / scale
    best: tuple[float, Any] | None = None
    for length, likeness, noise in product(LENGTHS, LIKENESSES, NOISES):
        near = np.sqrt(5) * distances / (length * typical)
        kernel = (1 + near + near**2 / 3) * np.exp(-near) * np.where(alike, 1.0, likeness)
        lower = cholesky(kernel[:known] + noise * np.eye(known), lower=True)
        weights = cho_solve((lower, True), targets)
        likelihood = -0.5 * targets @ weights - np.log(np.diag(lower)).sum()
        if best is None or likelihood > best[0]:
            best = (likelihood, (kernel[known:], lower, weights))
    assert best is not None
    across, lower, weights = best[1]
    solved = cho_solve((lower, True), across.T)
    variance = np.maximum(1.0 - (across * solved.T).sum(axis=1), 1e-9)
    mean: Vector = centre + scale * (across @ weights)
    return mean, scale * np.sqrt(variance)
