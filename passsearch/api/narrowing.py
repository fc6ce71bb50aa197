"""The precision of a network that is compiled without a search, decided under a budget."""

from collections.abc import Callable
from pathlib import Path

from passsearch.core import NARROWING, Candidate, Failure
from passsearch.errors import UserError
from passsearch.evaluate import Built, RoundedWeights, WorkerEvaluator
from passsearch.measure import Ratio
from passsearch.results import NoPrecision, PrecisionDecision, StatedFailure
from passsearch.search import Gain, PrecisionChooser, PrecisionRequest


def refuse_narrow_pipeline(candidate: Candidate | None) -> None:
    """Refuse to decide on a pipeline that the user names, and whose weights have fewer bits already.

    Raises:
        UserError: It is such a pipeline.
    """
    if candidate is not None and candidate.pipeline.narrows:
        raise UserError(
            f"The pipeline `{candidate.name or candidate.pipeline}` has the pass {NARROWING}, so there is no precision "
            "to decide on; leave out --precision (precision=), or name another pipeline."
        )


def export_narrowed(
    evaluator: WorkerEvaluator,
    request: tuple[PrecisionRequest, RoundedWeights],
    candidate: Candidate,
    built: Built,
    *,
    choice: str,
    lead: Callable[[Candidate, Built], Ratio | Failure],
    export: Callable[[Candidate, str], Path],
) -> tuple[Candidate, Built, NoPrecision | PrecisionDecision, Path]:
    """Export the candidate in the precision that a budget allows, if that is faster, else in float32.

    Args:
        evaluator: Builds and times it.
        request: What the user asks of the precision, and what compares outputs with rounded weights.
        candidate: The candidate in float32.
        built: Its build.
        choice: How its passes were chosen, in words.
        lead: Returns the throughput of a candidate as a multiple of the one in float32.
        export: Writes the deployment of a candidate that was chosen so, and returns its folder.

    Returns:
        What was exported, its build, what was decided, and the folder.
    """
    tried: list[tuple[Candidate, Built]] = []

    def evaluate(narrow: Candidate) -> Gain | Failure:
        made = evaluator.build_candidate(narrow)
        if isinstance(made, Failure):
            return made
        ratio = lead(narrow, made)
        if isinstance(ratio, Failure):
            return ratio
        tried.extend([(narrow, made)] if ratio.value > 1 else [])
        return Gain(narrow.pipeline, ratio.value)

    chooser = PrecisionChooser(
        evaluator, *request, [*evaluator.session.catalog.entries.values()], build=candidate.build
    )
    decided = chooser.decide(candidate.pipeline, evaluate)
    decision = NoPrecision(StatedFailure(**vars(decided))) if isinstance(decided, Failure) else decided
    if tried:
        try:
            fewer = f"{choice}, in fewer bits within a budget of {request[0].budget.text}"
            return *tried[-1], decision, export(tried[-1][0], fewer)
        except UserError as error:  # on inputs on which nothing was decided
            refusal = Failure("wrong_result", "measure", "", str(error))
            decision = NoPrecision(StatedFailure(**vars(refusal)))
    return candidate, built, decision, export(candidate, choice)
