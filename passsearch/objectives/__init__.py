"""Objectives: the quantities that a search improves. A class holds all that is particular to one of them.

A search takes the gain of a candidate and the readings it needs from here, a confirmation its ratio, its noise floor
and when it is certain, a report its words and its place in a result. No other room names an objective.
"""

from passsearch.objectives.consumption import MeteredObjective
from passsearch.objectives.consumption_turn import ConsumptionTurn
from passsearch.objectives.objective import ConfirmedReadings, Objective, SearchReadings
from passsearch.objectives.outcome import (
    EQUAL,
    IMPROVED,
    NO_GAIN,
    NO_IMPROVEMENT,
    OUTCOMES,
    UNCONFIRMED,
    UNDECIDED,
    verdict_outcome,
    with_outcome,
)
from passsearch.objectives.table import (
    COMPILE_TIME,
    LATENCY,
    MEMORY,
    METERED_OBJECTIVES,
    OBJECTIVES,
    THROUGHPUT,
    parse_objective,
    parse_objectives,
    recorded_objective,
)

__all__ = [
    "COMPILE_TIME",
    "EQUAL",
    "IMPROVED",
    "LATENCY",
    "MEMORY",
    "METERED_OBJECTIVES",
    "NO_GAIN",
    "NO_IMPROVEMENT",
    "OBJECTIVES",
    "OUTCOMES",
    "THROUGHPUT",
    "UNCONFIRMED",
    "UNDECIDED",
    "ConfirmedReadings",
    "ConsumptionTurn",
    "MeteredObjective",
    "Objective",
    "SearchReadings",
    "parse_objective",
    "parse_objectives",
    "recorded_objective",
    "verdict_outcome",
    "with_outcome",
]
