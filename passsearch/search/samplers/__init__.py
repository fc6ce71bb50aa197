"""Strategies: every one is an Optuna sampler that chooses the next candidate of a space."""

from passsearch.search.samplers.genetic import PassGASampler
from passsearch.search.samplers.graph import GAIN, MARGIN, GraphSampler
from passsearch.search.samplers.local import LocalSampler
from passsearch.search.samplers.strategies import AUTO, STRATEGIES, Strategy, require_strategy, strategy

__all__ = [
    "AUTO",
    "GAIN",
    "MARGIN",
    "STRATEGIES",
    "GraphSampler",
    "LocalSampler",
    "PassGASampler",
    "Strategy",
    "require_strategy",
    "strategy",
]
