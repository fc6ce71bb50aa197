"""A strategy over the states of a graph: it proposes states that are not measured yet, the most promising first.

A Gaussian process predicts the value of a state from its counts of operators (with their layouts), fused groups and
constants. The next state has the largest expected improvement (Jones, Schonlau and Welch, Efficient global optimization
of expensive black-box functions, Journal of Global Optimization 13, 1998).

Where throughput must be kept, a second process predicts the margin, and the improvement is weighted with the
probability of keeping it (Gardner et al., Bayesian optimization with inequality constraints, ICML 2014).
"""

import math
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
from scipy.special import ndtr

from passsearch.search.graph_space import LEVEL, STATE
from passsearch.search.samplers.trial_values import GAIN, MARGIN

Vector: TypeAlias = npt.NDArray[np.float64]
Choice: TypeAlias = tuple[int, int]
"""Number of a state, and opt level of the build after it."""

FAR_MARGIN = 0.1
"""Margins are cut off here: a larger distance from the limit carries no more information."""

FEWEST_MEASURED = 2
"""Number of measured states from which the process can predict."""

MOST_LEARNT_FROM = 512
"""Largest number of measured states that the process learns from: its time grows with their cube."""

# A grid and not a gradient: 36 fits of a few dozen points are quick, always end, and need no starting point.
LENGTHS, LEVEL_CORRELATIONS, NOISES = (0.5, 1.0, 2.0, 4.0), (0.1, 0.5, 0.9), (1e-4, 1e-2, 1e-1)
"""Grid of the process's parameters: length scale in median distances, correlation between two opt levels, noise."""


class GraphSampler(optuna.samplers.BaseSampler):
    """Samples a ``GraphSpace``, whose keys are a state's number and an opt level."""

    def __init__(
        self,
        distributions: Callable[[], Mapping[str, BaseDistribution]],
        op_counts: Callable[[int], Mapping[str, int]],
        *,
        seed: int | None = None,
    ) -> None:
        """Prepare a sampler.

        Args:
            distributions: Returns the keys, which grow with the graph.
            op_counts: Returns the operator counts of a state by its number.
            seed: Seed of the random choices.
        """
        self._distributions, self._op_counts = distributions, op_counts
        self._counts: list[Mapping[str, int]] = []  # by number of the state
        self._features: Vector = np.zeros((0, 0))  # a row for each state
        self._rng = np.random.default_rng(seed)

    def reseed_rng(self) -> None:
        """Draw a new seed, as Optuna requires of samplers that several processes share."""
        self._rng = np.random.default_rng()

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Return both keys, which are sampled together."""
        return dict(self._distributions())

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the most promising unmeasured choice, a random one among equals."""
        trials = study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))
        measured = {(past.params[STATE], past.params[LEVEL]): past for past in trials}
        candidates = [choice for choice in self.choices() if choice not in measured]
        if not candidates:
            # A sampler must answer; the search ends by itself when a known state comes again and again.
            state, level = next(iter(measured))
        elif len(measured) < FEWEST_MEASURED:
            state, level = candidates[self._rng.integers(len(candidates))]
        else:
            promise = self._promise(measured, candidates)
            # States with the same counts promise the same but for rounding; the first of them is no better than the
            # rest.
            best = np.flatnonzero(promise >= promise.max() * (1 - 1e-9))
            state, level = candidates[best[self._rng.integers(len(best))]]
        return {STATE: state, LEVEL: level}

    def choices(self) -> list[Choice]:
        """Return all choices of a state and a level."""
        kinds: Any = self._distributions()
        return list(product(range(kinds[STATE].high + 1), kinds[LEVEL].choices))

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """Refuse: both keys are sampled together."""
        raise NotImplementedError

    def _promise(self, measured: Mapping[Choice, FrozenTrial], candidates: Sequence[Choice]) -> Vector:
        measured = self._informative(measured)
        points = [*measured, *candidates]
        features = self._known_features()[[state for state, _ in points]]
        levels = np.array([level for _, level in points])
        trials = list(measured.values())
        # The gain before it was lowered for lost throughput: a lowered value swamps the differences among all others.
        values = np.array([trial.user_attrs.get(GAIN, trial.values[0]) for trial in trials])
        # The value of a failure is arbitrary: it only has to be worse than that of every candidate that worked.
        worked = values[values > values.max() - 3]
        mean, deviation = _posterior(features, levels, values=np.maximum(values, worked.min()))
        if not any(MARGIN in trial.user_attrs for trial in trials):
            return _improvement(mean, deviation, best=values.max())
        margins = np.array([trial.user_attrs.get(MARGIN, -FAR_MARGIN) for trial in trials])
        above, spread = _posterior(features, levels, values=np.clip(margins, -FAR_MARGIN, FAR_MARGIN))
        admissible = values[margins >= 0]
        best = admissible.max() if len(admissible) else worked.min()
        improvement = _improvement(mean, deviation, best=best)
        keeps: Vector = ndtr(above / spread)
        return improvement * keeps

    def _informative(self, measured: Mapping[Choice, FrozenTrial]) -> Mapping[Choice, FrozenTrial]:
        """Return the trials to learn from: all of them, or the better half of so many and others at random."""
        if len(measured) <= MOST_LEARNT_FROM:
            return measured
        ranked = sorted(measured, key=lambda choice: -measured[choice].values[0])
        better, rest = ranked[: MOST_LEARNT_FROM // 2], ranked[MOST_LEARNT_FROM // 2 :]
        others = self._rng.choice(len(rest), MOST_LEARNT_FROM - len(better), replace=False)
        return {choice: measured[choice] for choice in [*better, *(rest[place] for place in sorted(others))]}

    def _known_features(self) -> Vector:
        """Return a row of features for every state of the graph."""
        kinds: Any = self._distributions()
        number = kinds[STATE].high + 1
        if len(self._features) == number:
            return self._features
        self._counts += [self._op_counts(state) for state in range(len(self._counts), number)]
        names = sorted({name for counts in self._counts for name in counts})
        counts = np.array([[each.get(name, 0) for name in names] for each in self._counts], float)
        # Logs, because one convolution more matters less among fifty than among two.
        scaled = np.log1p(counts)
        spread = scaled.std(axis=0) if names else np.ones(0)
        self._features = scaled[:, spread > 0] / spread[spread > 0]
        return self._features


def _improvement(mean: Vector, deviation: Vector, *, best: float) -> Vector:
    """Return the expected improvement over the best."""
    gap = mean - best
    ahead = gap / deviation
    density = np.exp(-(ahead**2) / 2) / math.sqrt(2 * math.pi)
    improvement: Vector = gap * ndtr(ahead) + deviation * density
    return np.maximum(improvement, 0)


def _posterior(features: Vector, levels: npt.NDArray[Any], *, values: Vector) -> tuple[Vector, Vector]:
    """Return mean and deviation at the points without a value, which come last.

    The parameters are those of the largest marginal likelihood.
    """
    number = len(values)
    distances = cdist(features, features[:number]) if features.shape[1] else np.zeros((len(features), number))
    # Lengths are multiples of the median distance, so that one grid suits networks of every size.
    typical = np.median(distances[distances > 0]) if (distances > 0).any() else 1.0
    same_level = levels[:, None] == levels[None, :number]
    centre, scale = values.mean(), max(values.std(), 1e-6)
    targets = (values - centre) / scale
    fits = []
    for length in LENGTHS:
        similar = _matern(distances[:number], length * typical)
        for correlation, noise in product(LEVEL_CORRELATIONS, NOISES):
            kernel = similar * np.where(same_level[:number], 1.0, correlation)
            lower = cholesky(kernel + noise * np.eye(number), lower=True)
            weights = cho_solve((lower, True), targets)
            likelihood = -0.5 * targets @ weights - np.log(np.diag(lower)).sum()
            fits.append((likelihood, length, correlation, lower, weights))
    _, length, correlation, lower, weights = max(fits, key=lambda fit: fit[0])
    across = _matern(distances[number:], length * typical) * np.where(same_level[number:], 1.0, correlation)
    solved = cho_solve((lower, True), across.T)
    variance = np.maximum(1.0 - (across * solved.T).sum(axis=1), 1e-9)
    mean: Vector = centre + scale * (across @ weights)
    return mean, scale * np.sqrt(variance)


def _matern(distances: Vector, length: float) -> Vector:
    """Return the covariance Matérn 5/2."""
    # As usual for functions that are less smooth than a squared exponential assumes (Rasmussen and Williams, Gaussian
    # processes for machine learning, 2006, section 4.2).
    near = np.sqrt(5) * distances / length
    covariance: Vector = (1 + near + near**2 / 3) * np.exp(-near)
    return covariance
