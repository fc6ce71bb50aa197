"""Time limits of which a test says how much is left."""

from collections.abc import Callable

from passsearch.core import TimeLimit

LIMIT_S = 1e6
"""The limit, far more than any test takes."""


def time_left(left_s: Callable[[], float]) -> TimeLimit:
    """Return a time limit that leaves the seconds that a function returns."""
    return TimeLimit(LIMIT_S, lambda: LIMIT_S - left_s())
