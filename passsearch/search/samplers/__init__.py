"""Strategies: each is an Optuna sampler with the space it samples."""

from passsearch.search.samplers.graph import GraphSampler
from passsearch.search.samplers.strategies import AUTO, STRATEGIES, Strategy, make_strategy, require_strategy
from passsearch.search.samplers.trial_values import GAIN, MARGIN, REJECTED, values_under_constraint

__all__ = [
    "AUTO",
    "GAIN",
    "MARGIN",
    "REJECTED",
    "STRATEGIES",
    "GraphSampler",
    "Strategy",
    "make_strategy",
    "require_strategy",
    "values_under_constraint",
]
