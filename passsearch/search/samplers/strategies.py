"""The strategies by name, and the one that a search takes by default."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import optuna

from passsearch.core import Json
from passsearch.errors import UserError
from passsearch.search.graph_space import GraphSpace
from passsearch.search.records import ProposalSource
from passsearch.search.samplers.graph import GraphSampler
from passsearch.search.space import Space

AUTO = "auto"
"""Name that stands for the strategy that suits the number of objectives."""

# Optuna's default of 50 would spend nearly all of the 60 trials of a default search on its first, random generation.
PARETO_POPULATION = 16
"""Number of candidates in a generation of NSGA-II."""

MULTI_OBJECTIVE = ("nsga2", "random")
"""Strategies that take several objectives."""


@dataclass(frozen=True)
class Strategy:
    """A sampler with the space it samples.

    Attributes:
        name: Name as ``--sampler`` takes it.
        space: Turns the sampler's keys into candidates and back.
        sampler: Optuna's sampler.
        attributes: What Optuna has to store with a trial that the sampler did not propose, for the sampler to use it.
        prepare: Called before every proposal; returns why nothing is left to propose, an empty text while something is.
        source: Kind of what it proposes, as results state it; see ``results.Source``.
    """

    name: str
    space: Space | GraphSpace
    sampler: optuna.samplers.BaseSampler
    attributes: Mapping[str, Json] = field(default_factory=dict)
    prepare: Callable[[], str] = lambda: ""
    source: ProposalSource = "sampler"


def _random(space: Space, _: GraphSpace, seed: int) -> Strategy:
    return Strategy("random", space, optuna.samplers.RandomSampler(seed=seed))


def _nsga2(space: Space, _: GraphSpace, seed: int) -> Strategy:
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=PARETO_POPULATION)
    # Parents are trials with a generation, which Optuna gives to its own proposals only. Its key has no public name.
    return Strategy("nsga2", space, sampler, attributes={sampler._get_generation_key(): 0})


def _graph(_: Space, graph: GraphSpace, seed: int) -> Strategy:
    sampler = GraphSampler(graph.distributions, graph.op_counts, seed=seed)
    return Strategy("graph", graph, sampler, prepare=graph.find_states, source="explored state")


STRATEGIES: dict[str, Callable[[Space, GraphSpace, int], Strategy]] = {
    "random": _random,
    "nsga2": _nsga2,
    "graph": _graph,
}
"""Random keys, Optuna's NSGA-II on keys, and a Gaussian process on states."""


def make_strategy(name: str, space: Space, *, graph: GraphSpace, seed: int, objectives: int = 1) -> Strategy:
    """Return a strategy by name; ``auto`` is ``graph`` for one objective and ``nsga2`` for two.

    Raises:
        UserError: See ``require_strategy``.
    """
    require_strategy(name, objectives=objectives)
    if name == AUTO:
        name = "graph" if objectives == 1 else "nsga2"
    return STRATEGIES[name](space, graph, seed)


def require_strategy(name: str, *, objectives: int) -> None:
    """Refuse a strategy that does not exist, or that takes one objective where there are two.

    Raises:
        UserError: Unknown strategy, or one that does not take two objectives; lists the strategies that fit.
    """
    if name == AUTO:
        return
    if name not in STRATEGIES:
        raise UserError(f"Unknown sampler `{name}`; choose from: {', '.join([AUTO, *STRATEGIES])}.")
    if objectives > 1 and name not in MULTI_OBJECTIVE:
        allowed = ", ".join((AUTO, *MULTI_OBJECTIVE))
        raise UserError(f"Sampler `{name}` takes one objective; for two choose from: {allowed}.")
