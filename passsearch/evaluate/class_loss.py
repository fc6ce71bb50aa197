"""What outputs lose in the classes that they give, in the units of a budget."""

from collections.abc import Mapping

from passsearch.core import ACCURACY, TOP1, ErrorBudget

_WORDS = {
    TOP1: "of the rows have another class than the reference's",
    ACCURACY: "fewer of the rows are classified right",
}


def class_loss(counts: Mapping[str, int], unit: str) -> float | None:
    """Return the share of rows that have another class, or by which fewer are classified right.

    The second is below 0 where more are right than in the reference.

    Args:
        counts: What ``compare_classes`` counts; empty where outputs have no classes.
        unit: Unit of a budget of classes.
    """
    if not counts.get("rows") or (unit == ACCURACY and "right" not in counts):
        return None
    lost = counts["expected_right"] - counts["right"] if unit == ACCURACY else counts["differing"]
    return lost / counts["rows"]


def class_fault(counts: Mapping[str, int], budget: ErrorBudget) -> str:
    """Return which loss is above a budget of classes; empty if none is."""
    loss = class_loss(counts, budget.unit)
    if loss is None or loss <= budget.limit:
        return ""
    return f"{100 * loss:.3g} % {_WORDS[budget.unit]}; {100 * budget.limit:.3g} % is allowed"
