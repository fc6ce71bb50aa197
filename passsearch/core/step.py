"""The step that a search is at, for callbacks that show progress."""

import math


class Step(str):
    """A step in words, as a progress callback gets it, with what is known so far.

    Attributes:
        detail: The best candidate so far, the number of IRs and the failures, in words; empty if there are none.
        elapsed_s: Seconds that the run has lasted, earlier starts included; not a number where nobody counts them.
        limit_s: Time limit of the run; infinite without one.
    """

    detail: str
    elapsed_s: float
    limit_s: float

    def __new__(cls, text: str, *, detail: str = "", elapsed_s: float = math.nan, limit_s: float = math.inf) -> "Step":
        """Return a step; it is the text wherever a text is needed."""
        step = super().__new__(cls, text)
        step.detail, step.elapsed_s, step.limit_s = detail, elapsed_s, limit_s
        return step
