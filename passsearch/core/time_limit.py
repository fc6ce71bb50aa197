"""A time limit, with the clock that it is read on."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field


def stopwatch() -> Callable[[], float]:
    """Return a clock that begins now: a function of the seconds since then."""
    begin_s = time.monotonic()
    return lambda: time.monotonic() - begin_s


@dataclass(frozen=True)
class TimeLimit:
    """A limit of time that is passed on with its clock, so that all who keep it read the same clock.

    Attributes:
        limit_s: The limit; infinite for none.
        clock_s: Returns the seconds that are over; by default those since this object was made.
    """

    limit_s: float = math.inf
    clock_s: Callable[[], float] = field(default_factory=stopwatch)

    @property
    def is_over(self) -> bool:
        """True once no time is left."""
        return self.left_s() <= 0

    def left_s(self, *, overtime: float = 0.0) -> float:
        """Return the seconds until the limit, or until it is exceeded by a share of it; negative after that."""
        return (1 + overtime) * self.limit_s - self.clock_s()


UNLIMITED = TimeLimit()
"""No limit."""


def limit_or_inf(value: float | None) -> float:
    """Return a limit as this package passes it on; ``None``, for none, is how arguments and JSON write it."""
    return math.inf if value is None else value


def limit_or_none(limit: float) -> float | None:
    """Return a limit as JSON has it: ``None`` for none."""
    return None if math.isinf(limit) else limit
