"""The error that a user allows weights in fewer bits to cause, in one of several units."""

import math
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path

from passsearch.core.rules import short_repr
from passsearch.errors import UserError

SHARE, TOP1, ACCURACY = BUDGET_UNITS = ("share", "top1", "accuracy")
"""Units of a budget: share of the largest output, share of rows with another class than the reference's, and share of
rows by which fewer are classified right than by the reference."""

FLOAT32, WEIGHTS, MIXED, TF32 = PRECISIONS = ("float32", "weights", "mixed", "tf32")
"""What a search may decide on under a budget: nothing, the precision of every layer's weights, or that of the numbers
that they are multiplied with as well; or what a GPU multiplies in float32 as, which needs no budget."""

_LEAST_SHARE = 1e-6


@dataclass(frozen=True)
class ErrorBudget:
    """The error that fewer bits may cause.

    Attributes:
        limit: The largest error, in the unit.
        unit: One of ``BUDGET_UNITS``.
        bound: Largest deviation of outputs, as a share of the largest, whatever the unit.
        labels: File with the labels of the samples, for ``ACCURACY``.
        precision: What may have fewer bits: ``WEIGHTS`` or ``MIXED``.
    """

    limit: float
    unit: str = SHARE
    bound: float = 1.0
    labels: Path | None = None
    precision: str = WEIGHTS

    @property
    def is_of_classes(self) -> bool:
        """True if outputs are judged by the classes that they give."""
        return self.unit != SHARE

    @property
    def text(self) -> str:
        """The budget as the command line takes it."""
        return f"{self.unit}:{self.limit:g}" if self.is_of_classes else f"{self.limit:g}"

    def with_labels(self, labels: Path | None) -> "ErrorBudget":
        """Return the budget with the labels of the samples."""
        return replace(self, labels=labels)


def read_budget(value: object) -> ErrorBudget:
    """Return the budget that a user writes: a number, or ``UNIT:NUMBER``.

    Raises:
        UserError: It is neither, there is no such unit, or the number is out of the unit's range.
    """
    unit, number = SHARE, value
    if isinstance(value, str):
        before, colon, after = value.strip().rpartition(":")
        unit, number = (before.strip() if colon else SHARE), _number(after)
    is_number = isinstance(number, Real) and not isinstance(number, bool) and math.isfinite(float(number))
    limit = float(number) if is_number and isinstance(number, Real) else math.nan
    least = _LEAST_SHARE if unit == SHARE else 0.0
    if unit not in BUDGET_UNITS or not least <= limit <= 1:
        raise UserError(
            f"`budget` is a number from 1e-06 to 1 (a share of the largest output), or {TOP1}:N or {ACCURACY}:N with N "
            f"from 0 to 1 (a share of the rows); got {short_repr(value)}. For example: budget=0.01"
        )
    return ErrorBudget(limit, unit, limit if unit == SHARE else 1.0)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@dataclass(frozen=True)
class Budget:
    """The rule of an argument that is a budget."""

    def accept(self, name: str, value: object) -> object:
        """Return the value as it is.

        Raises:
            UserError: It is no budget.
        """
        del name
        read_budget(value)
        return value
