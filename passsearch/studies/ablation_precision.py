"""What the precision of each layer of a winner is worth: all others as they are, and its weights in float32 again."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from passsearch.core import FLOAT32, NARROWING, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import RoundedChoice, WorkerEvaluator, used_budget
from passsearch.results import LayerPrecision, LayerWorth, NoPrecision, PrecisionDecision, PrecisionWorth

MOST_CASES = 4
"""Most inputs on which errors are measured."""

MOST_CHOICES = 8
"""Most choices of a request: what they share is rounded once for it, and the time that is left is read between two."""

CUT = "the time limit was over"
"""What keeps errors from being measured until an ablation goes on."""

_log = logging.getLogger(__name__)


def precision_worth(
    decision: NoPrecision | PrecisionDecision | None,
    winner: Pipeline,
    evaluator: WorkerEvaluator,
    *,
    time_limit: TimeLimit,
) -> PrecisionWorth | None:
    """Return what each layer in fewer bits saves and costs; ``None`` for a winner without a decision on them.

    Times are those of the decision, which has timed every kernel in its place. Errors are predicted by it and measured
    again, on one build whose weights are arguments, so that no layer needs a build of its own.
    """
    if not isinstance(decision, PrecisionDecision) or decision.pipeline is None:
        return None
    begin = up_to_narrowing(winner)
    if not begin or begin != up_to_narrowing(Pipeline.parse(decision.pipeline)):
        return None
    narrow = [each for each in decision.layers if each.storage != FLOAT32]
    _log.info("the weights of %d layers return to float32, one by one", len(narrow))
    choice = {(each.kernel, each.call): _arguments(each) for each in narrow}
    rest = [{key: own for key, own in choice.items() if key != (each.kernel, each.call)} for each in narrow]
    measured: list[float | None] = []
    failure = ""
    for found in _errors([choice, *rest], winner, len(begin), evaluator, time_limit):
        if isinstance(found, str):
            failure = found
            _log.info("errors were not measured: %s", failure)
        else:
            measured += found
    errors = [*measured, *[None] * (1 + len(narrow) - len(measured))]
    return PrecisionWorth(
        predicted_s=decision.predicted_s,
        predicted_error=decision.predicted_error,
        error=errors[0],
        failure=failure,
        layers=tuple(_worth(*each, decision) for each in zip(narrow, errors[1:], strict=True)),
    )


def _worth(layer: LayerPrecision, error: float | None, decision: PrecisionDecision) -> LayerWorth:
    # The squares of the layers' errors add up.
    predicted = decision.predicted_error * math.sqrt(max(0.0, 1 - layer.error_share))
    return LayerWorth(
        storage=layer.storage,
        group=layer.group,
        activations=layer.activations,
        kernel=layer.kernel,
        call=layer.call,
        weights=layer.weights,
        saved_s=layer.saved_s,
        predicted_error=predicted,
        error=error,
    )


def _errors(
    choices: Sequence[RoundedChoice], winner: Pipeline, begin: int, evaluator: WorkerEvaluator, time_limit: TimeLimit
) -> Iterator[list[float] | str]:
    """Yield the errors of some choices after the other, as shares of the largest output; at the end why others lack."""
    budget, rounding = evaluator.session.budget, evaluator.rounding
    if budget is None:
        yield "the run has no budget"
        return
    state = evaluator.reach(Pipeline(winner.passes[: begin - 1]))
    if isinstance(state, Failure):
        yield state.reason
        return
    # Without the schedules of single kernels: weights that are arguments are not packed.
    steps, cases = [_plain(each, evaluator) for each in winner.passes[begin:]], rounding.usual_cases(MOST_CASES)
    elapsed = 0.0
    # The first one alone, as it takes the build.
    for place in (0, *range(1, len(choices), MOST_CHOICES)):
        # A request of the same length must fit into the time that is left.
        if time_limit.left_s() <= elapsed:
            yield CUT
            return
        now = time.monotonic()
        some = choices[place : place + MOST_CHOICES] if place else choices[:1]
        found = rounding.compare(state, steps, choices=some, cases=cases)
        if isinstance(found, Failure):
            yield found.reason
            return
        yield [used_budget(each.compared, budget.bound) for each in found]
        elapsed = time.monotonic() - now


def up_to_narrowing(pipeline: Pipeline) -> tuple[PassSpec, ...]:
    """Return the passes up to the one that narrows weights, with it; none where none does."""
    places = [place for place, step in enumerate(pipeline.passes) if step.name == NARROWING]
    return pipeline.passes[: places[0] + 1] if places else ()


def _plain(step: PassSpec, evaluator: WorkerEvaluator) -> PassSpec:
    entry = evaluator.session.catalog.entries.get(step.name)
    return entry.kernel_schedule(step) if entry is not None and entry.kernel_parameter else step


def _arguments(layer: LayerPrecision) -> dict[str, Any]:
    """Return the arguments of the pass for one layer."""
    group = {"group": layer.group} if layer.group else {}
    activations = {"activations": layer.activations} if layer.activations != FLOAT32 else {}
    return {"storage": layer.storage, **group, **activations}
