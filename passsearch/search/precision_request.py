"""What a user asks of the precision of weights."""

from dataclasses import dataclass

from passsearch.catalog import CatalogEntry
from passsearch.core import MIXED, NARROWING, ErrorBudget
from passsearch.dialects.sample_labels import check_labels
from passsearch.evaluate import RoundedWeights, Session, WorkerEvaluator

ACTIVATIONS = "activations"
"""Parameter of the pass that narrows weights: the type of what they are multiplied with."""


@dataclass(frozen=True)
class PrecisionRequest:
    """What a user asks of the precision of weights.

    Attributes:
        entry: The pass that narrows weights.
        budget: What narrower weights may change.
        compared_with: What outputs are compared with, in words.
        samples: Number of samples of the user; 0 for random inputs.
    """

    entry: CatalogEntry
    budget: ErrorBudget
    compared_with: str
    samples: int = 0


def precision_request(session: Session, evaluator: WorkerEvaluator) -> tuple[PrecisionRequest, RoundedWeights] | None:
    """Return what the user of a session asks for, and what compares outputs; ``None`` for weights in float32.

    Raises:
        UserError: The labels are not of the samples, or the outputs have no classes for a budget of classes.
    """
    if (budget := session.budget) is None:
        return None
    check, runtime = evaluator.network.check, evaluator.builder.source.runtime
    if budget.labels:
        check_labels(budget.labels, samples=check.samples, count=check.sample_count)
    if budget.is_of_classes and evaluator.builder.reference.exists():
        evaluator.rounding.require_classes()
    compared_with = f"the float32 outputs of {runtime or 'the import'}"
    entry = session.catalog.entry(NARROWING)
    if budget.precision == MIXED:
        entry = entry.with_all_choices(ACTIVATIONS)
    return PrecisionRequest(entry, budget, compared_with, check.sample_count), evaluator.rounding
