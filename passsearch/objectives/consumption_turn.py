"""Consumption of the artifacts that a confirmation has run in turns."""

from dataclasses import dataclass

from passsearch.measure import Consumption


@dataclass(frozen=True)
class ConsumptionTurn:
    """Consumption of baseline, twin and candidate that ran in turns."""

    baseline: Consumption
    twin: Consumption
    candidate: Consumption
