"""The bound on errors by which a budget of classes is kept: found by bisection, decided anew for each bound."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from passsearch.core import Failure

MOST_HALVINGS = 10
"""Most bounds that are tried."""

NARROWEST = 1.03
"""Ratio of two bounds between which no further one is tried."""

C = TypeVar("C")


@dataclass(frozen=True)
class Bounded(Generic[C]):
    """A choice whose measured loss is within the budget.

    Attributes:
        choice: The choice; empty where none is.
        bound: The bound on its predicted error.
    """

    choice: C
    bound: float


def widest_bound(
    least: float,
    most: float,
    *,
    decide: Callable[[float], C],
    is_within: Callable[[C], bool | Failure],
) -> Bounded[C] | Failure:
    """Return the choice of the widest bound whose measured loss is within a budget.

    More error loses more classes, as a rule and not without exception; so the bisection ends at a bound within the
    budget next to one that is not, and a wider one may be within it again.

    Args:
        least: A bound that allows nothing.
        most: A bound that allows everything.
        decide: Returns the fastest choice within a bound.
        is_within: Measures a choice; a choice of nothing is within every budget.
    """
    bound, low, high = most, least, most
    best = Bounded(decide(least), least)
    for _ in range(MOST_HALVINGS):
        choice = decide(bound)
        within = is_within(choice)
        if isinstance(within, Failure):
            return within
        if within:
            low, best = bound, Bounded(choice, bound)
        else:
            high = bound
        if high / low < NARROWEST:
            break
        bound = math.sqrt(low * high)
    return best
