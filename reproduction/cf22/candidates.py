"""Single candidates: their artifact, and their row where they fail or are timed in one process only."""

import math
from statistics import median
from typing import Any

from passsearch.core import Candidate, Failure
from passsearch.evaluate import Built, CandidateSamples, WorkerEvaluator
from passsearch.measure import log_ratio

TOO_SLOW = 0.5
"""Share of -O3's throughput below which a selection is timed in one process only: some are a hundred times slower."""


def build(evaluator: WorkerEvaluator, candidate: Candidate) -> Built | Failure:
    """Return a candidate's artifact or its failure."""
    state = evaluator.reach(candidate.pipeline)
    return state if isinstance(state, Failure) else evaluator.build(state, candidate)


def sample_beside_o3(evaluator: WorkerEvaluator, built: Built) -> CandidateSamples | Failure:
    """Return samples of -O3 and of an artifact from one process."""
    reference = build(evaluator, evaluator.session.dialect.baseline)
    return reference if isinstance(reference, Failure) else evaluator.sample(reference, built)


def slow_row(evaluator: WorkerEvaluator, candidate: Candidate) -> dict[str, Any] | None:
    """Return the row of a selection that fails or is far slower than -O3, else ``None``.

    A single slow selection would make the interleaved measurement of all others last hours.
    """
    row = one_process_row(evaluator, candidate)
    if "failure" in row:
        return row
    if row["ratio"]["ratio"] >= TOO_SLOW:
        return None
    reason = f"under {TOO_SLOW} of -O3's throughput; timed in one process, until that was certain"
    return {**row, "unavailable": {"interval": reason}}


def one_process_row(evaluator: WorkerEvaluator, candidate: Candidate) -> dict[str, Any]:
    """Return the row of a candidate that is timed beside -O3 in one process, or its failure."""
    built = build(evaluator, candidate)
    if isinstance(built, Failure):
        return {"name": candidate.name, "failure": built.to_json()}
    samples = sample_beside_o3(evaluator, built)
    if isinstance(samples, Failure):
        return {"name": candidate.name, "failure": samples.to_json()}
    return {
        "name": candidate.name,
        "pipeline": str(candidate.pipeline),
        "binary": built.digest,
        "compile_s": evaluator.applier.apply_seconds(candidate.pipeline) + built.seconds,
        "latency_s": {"median": median(samples.candidate), "interval": None, "n": len(samples.candidate)},
        "ratio": {"ratio": math.exp(log_ratio(samples.reference, samples.candidate)), "interval": None},
    }
