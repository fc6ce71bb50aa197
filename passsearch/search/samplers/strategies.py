"""The strategies by name, and which of them a search takes by itself."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import optuna

from passsearch.errors import UserError
from passsearch.search.graph_space import GraphSpace
from passsearch.search.samplers.genetic import PassGASampler
from passsearch.search.samplers.graph import GraphSampler
from passsearch.search.samplers.local import LocalSampler
from passsearch.search.space import Space

AUTO = "auto"
PARETO_POPULATION = 16
SEVERAL = ("nsga2", "tpe", "random", "states")
"""Those that know several objectives."""


@dataclass(frozen=True)
class Strategy:
    """A sampler with the space it samples.

    Attributes:
        name: As ``--sampler`` takes it.
        space: Turns its keys into candidates and back.
        sampler: Optuna's.
    """

    name: str
    space: Space | GraphSpace
    sampler: optuna.samplers.BaseSampler


def _random(space: Space, _: GraphSpace, seed: int) -> Strategy:
    return Strategy("random", space, optuna.samplers.RandomSampler(seed=seed))


def _states(_: Space, graph: GraphSpace, seed: int) -> Strategy:
    return Strategy("states", graph, optuna.samplers.RandomSampler(seed=seed))


def _tpe(space: Space, _: GraphSpace, seed: int) -> Strategy:
    return Strategy("tpe", space, optuna.samplers.TPESampler(seed=seed, n_startup_trials=8, multivariate=True))


def _nsga2(space: Space, _: GraphSpace, seed: int) -> Strategy:
    sampler = optuna.samplers.NSGAIISampler(seed=seed, population_size=PARETO_POPULATION)
    return Strategy("nsga2", space, sampler)


def _genetic(space: Space, _: GraphSpace, seed: int) -> Strategy:
    return Strategy("genetic", space, PassGASampler(space.distributions(), seed=seed))


def _local(space: Space, _: GraphSpace, seed: int) -> Strategy:
    return Strategy("local", space, LocalSampler(space.distributions(), seed=seed))


def _graph(_: Space, graph: GraphSpace, seed: int) -> Strategy:
    return Strategy("graph", graph, GraphSampler(graph.distributions, graph.census, seed=seed))


STRATEGIES: dict[str, Callable[[Space, GraphSpace, int], Strategy]] = {
    "random": _random,
    "states": _states,
    "tpe": _tpe,
    "nsga2": _nsga2,
    "genetic": _genetic,
    "local": _local,
    "graph": _graph,
}
"""Random keys, random states, Optuna's TPE and NSGA-II on keys, and ours."""


def strategy(name: str, space: Space, *, graph: GraphSpace, seed: int, objectives: int = 1) -> Strategy:
    """One by name; ``require_strategy`` says whether there is one."""
    require_strategy(name, objectives=objectives)
    if name == AUTO:
        name = "graph" if objectives == 1 else "nsga2"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return STRATEGIES[name](space, graph, seed)


def require_strategy(name: str, *, objectives: int) -> None:
    """Refuse a sampler that does not exist, or that knows one objective where there are two.

    Raises:
        UserError: With the names there are.
    """
    if name == AUTO:
        return
    if name not in STRATEGIES:
        raise UserError(f"Unknown sampler `{name}`; choose from: {', '.join([AUTO, *STRATEGIES])}.")
    if objectives > 1 and name not in SEVERAL:
        raise UserError(f"Sampler `{name}` knows one objective; for two choose from: {AUTO}, {', '.join(SEVERAL)}.")
