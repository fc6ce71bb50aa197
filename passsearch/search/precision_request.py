"""What a user asks of the precision of weights."""

from dataclasses import dataclass

from passsearch.catalog import CatalogEntry
from passsearch.core import NARROWING
from passsearch.evaluate import RoundedWeights, Session, WorkerEvaluator


@dataclass(frozen=True)
class PrecisionRequest:
    """What a user asks of the precision of weights.

    Attributes:
        entry: The pass that narrows weights.
        budget: Largest deviation of outputs, as a share of the largest output.
        compared_with: What outputs are compared with, in words.
        samples: Number of samples of the user; 0 for random inputs.
    """

    entry: CatalogEntry
    budget: float
    compared_with: str
    samples: int = 0


def precision_request(session: Session, evaluator: WorkerEvaluator) -> tuple[PrecisionRequest, RoundedWeights] | None:
    """Return what the user of a session asks for, and what compares outputs; ``None`` for weights in float32."""
    if session.budget is None:
        return None
    runtime = evaluator.builder.source.runtime
    compared_with = f"the float32 outputs of {runtime or 'the import'}"
    samples = evaluator.network.check.sample_count
    request = PrecisionRequest(session.catalog.entry(NARROWING), session.budget, compared_with, samples)
    return request, evaluator.rounding
