"""What the precision of each layer of a winner is worth: all others as they are, and its weights in float32 again."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from passsearch.core import FLOAT32, NARROWING, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import WorkerEvaluator, used_budget
from passsearch.results import LayerPrecision, LayerWorth, NoPrecision, PrecisionDecision, PrecisionWorth

MOST_CASES = 4
"""Most inputs on which errors are measured."""

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
    again, on a build whose weights are arguments, so that no layer needs a build of its own.
    """
    if not isinstance(decision, PrecisionDecision) or decision.pipeline is None:
        return None
    step = _narrowing(winner)
    if step is None or step != _narrowing(Pipeline.parse(decision.pipeline)):
        return None
    narrow = [each for each in decision.layers if each.storage != FLOAT32]
    _log.info("the weights of %d layers return to float32, one by one", len(narrow))
    errors = _Errors(winner, step, evaluator, time_limit)
    choice = {(each.kernel, each.call): _arguments(each) for each in narrow}
    whole = errors.of(choice)
    rows = []
    for each in narrow:
        rest = {key: own for key, own in choice.items() if key != (each.kernel, each.call)}
        # The squares of the layers' errors add up.
        predicted = decision.predicted_error * math.sqrt(max(0.0, 1 - each.error_share))
        rows.append(
            LayerWorth(
                storage=each.storage,
                group=each.group,
                activations=each.activations,
                kernel=each.kernel,
                call=each.call,
                weights=each.weights,
                saved_s=each.saved_s,
                predicted_error=predicted,
                error=None if whole is None else errors.of(rest),
            )
        )
    return PrecisionWorth(
        predicted_s=decision.predicted_s, predicted_error=decision.predicted_error, error=whole, layers=tuple(rows)
    )


class _Errors:
    """Measures the errors of a winner's layers in several precisions."""

    def __init__(self, winner: Pipeline, step: PassSpec, evaluator: WorkerEvaluator, time_limit: TimeLimit) -> None:
        place = winner.passes.index(step)
        self._evaluator, self._time_limit = evaluator, time_limit
        self._state = evaluator.reach(Pipeline(winner.passes[:place]))
        # Without the schedules of single kernels: weights that are arguments are not packed.
        self._rest = [_plain(each, evaluator) for each in winner.passes[place + 1 :]]

    def of(self, choice: Mapping[tuple[str, int], Mapping[str, Any]]) -> float | None:
        """Return the error, as a share of the largest output; ``None`` where time or the compiler does not allow it."""
        budget = self._evaluator.session.budget
        if budget is None or isinstance(self._state, Failure) or self._time_limit.is_over:
            return None
        if not choice:
            return 0.0
        rounding = self._evaluator.rounding
        cases = rounding.usual_cases(MOST_CASES)
        found = rounding.compare(self._state, self._rest, choices=[choice], cases=cases)
        if isinstance(found, Failure):
            _log.info("the error was not measured: %s", found.reason)
            return None
        return used_budget(found[0].compared, budget.bound)


def _plain(step: PassSpec, evaluator: WorkerEvaluator) -> PassSpec:
    entry = evaluator.session.catalog.entries.get(step.name)
    return entry.kernel_schedule(step) if entry is not None and entry.kernel_parameter else step


def _narrowing(pipeline: Pipeline) -> PassSpec | None:
    steps: Sequence[PassSpec] = [step for step in pipeline.passes if step.name == NARROWING]
    return steps[0] if steps else None


def _arguments(layer: LayerPrecision) -> Mapping[str, Any]:
    """Return the arguments of the pass for one layer."""
    group = {"group": layer.group} if layer.group else {}
    activations = {"activations": layer.activations} if layer.activations != FLOAT32 else {}
    return {"storage": layer.storage, **group, **activations}
