"""Strategies: every one is an Optuna sampler that chooses the next candidate of a space."""

from passsearch.search.samplers.genetic import PassGASampler
from passsearch.search.samplers.graph import GraphSampler
from passsearch.search.samplers.local import LocalSampler
from passsearch.search.samplers.strategies import AUTO, STRATEGIES, Strategy, require_strategy, strategy
from passsearch.search.samplers.telling import GAIN, MARGIN, REJECTED, keeping

__all__ = [
    "AUTO",
    "GAIN",
    "MARGIN",
    "REJECTED",
    "STRATEGIES",
    "GraphSampler",
    "LocalSampler",
    "PassGASampler",
    "Strategy",
    "keeping",
    "require_strategy",
    "strategy",
]
