"""Decides on the precision of every layer's weights, under an error budget.

The weights of each layer (each call of a kernel that reads constants) are stored in float32, or in one of the storages
that the catalog's pass offers. What a storage saves is the time of its kernel in its place in a network that stores all
weights so. What it costs is the deviation of the outputs with this layer alone rounded, measured on a build whose
weights are arguments. Errors of several layers are as good as independent, so their squares add up; where they do not,
a factor corrects them. The fastest choice within the budget is a packing problem, like that of the composition, with
the squared errors as another constraint.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeAlias

import passsearch.results as results
from passsearch.catalog import CatalogEntry
from passsearch.core import BuildOptions, Candidate, Failure, Json, PassSpec, Pipeline, TimeLimit
from passsearch.dialects.rounding import RoundedLayer
from passsearch.evaluate import KernelProfiler, RoundedWeights, used_budget
from passsearch.search.composition import LEAST_GAIN
from passsearch.search.decision_choice import best_subset
from passsearch.search.kernel_times import OutOfTime
from passsearch.search.precision_request import PrecisionRequest
from passsearch.search.storage_times import StorageTimes, TimedStorage

PRECISION = "precision"
"""Name of the candidate whose layers have precisions of their own."""

MOST_CASES = 4
"""Most inputs on which the error of a single layer is measured."""

MOST_ROUNDS = 4
"""Most choices whose error is measured as a whole before one is built."""

MOST_BUILDS = 3
"""Most choices that are built: what the gate refuses is decided again with a smaller budget."""

MARGIN = 1.02
"""Factor on measured errors: the next choice must not be above the budget by a hair."""

POINTS = 12
"""Number of budgets for which the report shows the fastest choice."""

LEAST_FACTOR = 0.1
"""Least factor on errors: roundings that cancel on some inputs do not on others."""

SOLVER_S = 20.0
"""Longest time of one decision, in seconds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Option:
    """A storage for one layer, with its predicted saving in seconds, and its error."""

    layer: int
    storage: int
    saved_s: float
    error: float


@dataclass(frozen=True)
class Gain:
    """What a built choice is worth.

    Attributes:
        pipeline: The pipeline that was evaluated.
        ratio: Its throughput as a multiple of that of float32; ``None`` where nothing was timed.
    """

    pipeline: Pipeline
    ratio: float | None


Evaluate: TypeAlias = Callable[[Candidate], Gain | Failure]
"""Builds, verifies and times a candidate beside the one in float32."""


class PrecisionChooser:
    """Decides once."""

    def __init__(
        self,
        profiler: KernelProfiler,
        rounding: RoundedWeights,
        request: PrecisionRequest,
        entries: Sequence[CatalogEntry],
        *,
        time_limit: TimeLimit,
        build: BuildOptions,
    ) -> None:
        """Prepare a decision; see ``Composer`` for the arguments."""
        self._profiler, self._rounding, self._request, self._build = profiler, rounding, request, build
        self._times = StorageTimes(profiler, entries, time_limit=time_limit, build=build)
        self._time_limit = time_limit
        self._rounds = 0

    def decide(self, begin: Pipeline, evaluate: Evaluate) -> results.PrecisionDecision | Failure:
        """Decide for a pipeline whose weights are all in float32, and have the choice evaluated."""
        start = monotonic()
        try:
            outcome = self._decide(begin, evaluate)
        except OutOfTime:
            return Failure("timeout", "measure", "", "the search ended before all kernels were timed in fewer bits")
        seconds = round(monotonic() - start, 3)
        return outcome if isinstance(outcome, Failure) else replace(outcome, seconds=seconds)

    def _decide(self, pipeline: Pipeline, evaluate: Evaluate) -> results.PrecisionDecision | Failure:
        entry = self._request.entry
        place = entry.place_in(pipeline)
        if place is None:
            return Failure("compile_error", "apply", entry.name, "the pipeline has no place for it")
        state = self._profiler.reach(Pipeline(pipeline.passes[:place]))
        if isinstance(state, Failure):
            return state
        # Without the schedules of single kernels: weights that are arguments are not packed.
        self._state, self._rest = state, [self._times.plain(step) for step in pipeline.passes[place:]]
        layers = self._rounding.layers(state, self._rest)
        if isinstance(layers, Failure):
            return layers
        self._layers = layers
        timed = self._times.time(pipeline, entry)
        if isinstance(timed, Failure):
            return timed
        self._begin, self._storages = timed
        self._measure_layers()
        return self._within_budget(pipeline, evaluate)

    def _measure_layers(self) -> None:
        """Measure the error of every layer in every storage that saves time."""
        cases = self._rounding.usual_cases(MOST_CASES)
        self._saved = [[self._saving(layer, storage) for storage in self._storages] for layer in self._layers]
        self._options: list[_Option] = []
        self._notes: list[str] = []
        for number, layer in enumerate(self._layers):
            saving = [place for place, saved_s in enumerate(self._saved[number]) if saved_s is not None and saved_s > 0]
            self._notes.append("" if saving else self._reason(number))
            if not saving or self._time_limit.is_over:
                continue
            key = (layer.kernel, layer.call)
            choices = [{key: self._storages[place].arguments} for place in saving]
            found = self._rounding.compare(self._state, self._rest, choices=choices, cases=cases)
            if isinstance(found, Failure):
                self._notes[-1] = f"its error was not measured: {found.reason}"
                continue
            for place, outputs in zip(saving, found, strict=True):
                saved_s = self._saved[number][place]
                if outputs.narrowed and saved_s is not None:
                    error = used_budget(outputs.compared, self._request.budget)
                    self._options.append(_Option(number, place, saved_s, error))
                elif outputs.notes:
                    self._notes[-1] = outputs.notes[0]

    def _reason(self, number: int) -> str:
        """Return why no storage is an option for a layer."""
        if any(saved_s is not None for saved_s in self._saved[number]):
            return "no storage makes it faster"
        if self._storages and not self._time_limit.is_over:
            # The pass says why it leaves weights as they are, whatever the inputs.
            choice, cases = {self._key(number): self._storages[0].arguments}, self._rounding.usual_cases(1)
            found = self._rounding.compare(self._state, self._rest, choices=[choice], cases=cases)
            if not isinstance(found, Failure) and found[0].notes:
                return found[0].notes[0]
        return "no storage narrows its weights"

    def _saving(self, layer: RoundedLayer, storage: TimedStorage) -> float | None:
        """Return the seconds that a storage saves for one call of a layer; ``None`` if it changes nothing."""
        before, after = self._begin.kernels.get(layer.kernel), storage.kernels.get(layer.kernel)
        if before is None or after is None or before.digest == after.digest:
            return None
        return before.seconds - after.seconds

    # The decision.

    def _within_budget(self, begin: Pipeline, evaluate: Evaluate) -> results.PrecisionDecision | Failure:
        factor, failure = 1.0, ""
        gain: Gain | None = None
        choice: list[_Option] = []
        error = 0.0
        for _ in range(MOST_BUILDS):
            found = self._corrected(factor)
            if isinstance(found, Failure):
                return found
            choice, factor, error = found
            if not choice:
                break
            outcome = evaluate(Candidate(self._pipeline(begin, choice), self._build, PRECISION))
            if isinstance(outcome, Gain):
                gain, failure = outcome, ""
                break
            failure = f"{outcome.kind}: {outcome.reason}"
            if outcome.kind != "wrong_result":
                break
            _log.info("these precisions are refused, so less is allowed: %s", outcome.reason)
            factor *= 1.5
        return self._stated(choice, gain, factor=factor, error=error, failure=failure)

    def _corrected(self, factor: float) -> tuple[list[_Option], float, float] | Failure:
        """Return the fastest choice whose measured error is within the budget, the factor on errors, and that error."""
        budget = self._request.budget
        best: tuple[list[_Option], float, float] = ([], factor, 0.0)
        earlier: list[list[_Option]] = []
        for _ in range(MOST_ROUNDS):
            choice = self._fastest(budget / factor)[0]
            if not choice or choice in earlier:
                break
            earlier.append(choice)
            error = self._error_of(choice)
            if isinstance(error, Failure):
                return error
            measured = error_factor(error, _root_sum(choice))
            _log.info(
                "%d layers: %.2g of the outputs' largest, %.2f times the prediction", len(choice), error, measured
            )
            if error <= budget and _saved(choice) > _saved(best[0]):
                best = (choice, measured, error)
            # Looser only if that can change the choice.
            factor = measured * MARGIN
        return best

    def _error_of(self, choice: Sequence[_Option]) -> float | Failure:
        """Return the measured error of several layers together, on all inputs."""
        self._rounds += 1
        storages = {self._key(each.layer): self._storages[each.storage].arguments for each in choice}
        found = self._rounding.compare(self._state, self._rest, choices=[storages])
        return found if isinstance(found, Failure) else used_budget(found[0].compared, self._request.budget)

    def _fastest(self, budget: float, *, with_noise: bool = False) -> tuple[list[_Option], float]:
        """Return the fastest choice whose predicted error is within a budget, and the most that any may save.

        Savings below the noise are not used, except ``with_noise``.
        """
        options = [
            each
            for each in self._options
            if each.error <= budget and (with_noise or each.saved_s >= LEAST_GAIN * self._float32_s(each.layer))
        ]
        if not options:
            return [], 0.0
        layers = sorted({each.layer for each in options})
        rows = [[float(each.layer == layer) for each in options] for layer in layers]
        rows.append([(each.error / budget) ** 2 for each in options])
        savings = [each.saved_s for each in options]
        marks, most_s = best_subset(savings, rows, [1.0] * len(rows), longest_s=SOLVER_S)
        return [each for each, is_in in zip(options, marks, strict=True) if is_in], most_s

    def _pipeline(self, begin: Pipeline, choice: Sequence[_Option]) -> Pipeline:
        """Return the pipeline with these storages, and the fastest schedules of its kernels."""
        numbers = {
            layer.kernel: {other.call for other in self._layers if other.kernel == layer.kernel}
            for layer in self._layers
        }
        by_kernel: dict[str, dict[int, int]] = {}
        for each in choice:
            layer = self._layers[each.layer]
            by_kernel.setdefault(layer.kernel, {})[layer.call] = each.storage
        kernels: dict[str, Json] = {}
        for kernel, storages in sorted(by_kernel.items()):
            is_whole = storages.keys() == numbers[kernel] and len(set(storages.values())) == 1
            for call, place in sorted(storages.items()):
                kernels[kernel if is_whole else f"{kernel}:{call}"] = dict(self._storages[place].arguments)
        return self._times.scheduled(begin, PassSpec.of(self._request.entry.name, kernels=kernels), self._request.entry)

    # What the result says.

    def _stated(
        self, choice: Sequence[_Option], gain: Gain | None, *, factor: float, error: float, failure: str
    ) -> results.PrecisionDecision:
        budget, begin_s = self._request.budget, self._begin.total_s
        used = choice if gain else []
        is_nothing = not used and not failure and self._options
        return results.PrecisionDecision(
            budget=budget,
            compared_with=self._request.compared_with,
            samples=self._request.samples,
            pipeline=str(gain.pipeline) if gain else None,
            begin_s=begin_s,
            predicted_s=begin_s - _saved(used),
            bound_s=begin_s - self._fastest(budget / factor, with_noise=True)[1],
            predicted_error=factor * _root_sum(used),
            error=error if used else 0.0,
            nearest=min(each.error for each in self._options) if is_nothing else None,
            factor=factor,
            rounds=self._rounds,
            gain=gain.ratio if gain else None,
            refusal=failure,
            layers=tuple(self._layer(number, used) for number in range(len(self._layers))),
            uniform=self._uniform(),
            points=self._points(factor),
        )

    def _layer(self, number: int, used: Sequence[_Option]) -> results.LayerPrecision:
        layer, total = self._layers[number], sum(each.error**2 for each in used)
        own = next((each for each in used if each.layer == number), None)
        errors = {each.storage: each.error for each in self._options if each.layer == number}
        others = [
            results.LayerStorage(**self._storages[place].text_parts, saved_s=saved_s, error=errors.get(place))
            for place, saved_s in enumerate(self._saved[number])
            if saved_s is not None and (own is None or place != own.storage)
        ]
        stored = self._storages[own.storage].text_parts if own else {"storage": "float32", "group": 0}
        return results.LayerPrecision(
            **stored,
            kernel=layer.kernel,
            call=layer.call,
            weights=layer.weights,
            float32_s=self._float32_s(number),
            saved_s=own.saved_s if own else 0.0,
            error=own.error if own else None,
            error_share=own.error**2 / total if own and total else 0.0,
            reason="" if own else self._notes[number] or self._left_out(errors),
            others=tuple(others),
        )

    def _left_out(self, errors: Mapping[int, float]) -> str:
        """Return why a layer with options stays float32."""
        if not errors:
            return "no time was left to measure its error"
        if min(errors.values()) > self._request.budget:
            return "each storage alone is over the budget"
        return "others save more for their share of the budget, or it saves less than the noise"

    def _uniform(self) -> tuple[results.UniformPrecision, ...]:
        """Return what one storage for all layers would take and cost, each measured as a whole."""
        found = []
        for place, storage in enumerate(self._storages):
            saved = [own[place] for own in self._saved]
            choice = {
                self._key(number): storage.arguments for number, saved_s in enumerate(saved) if saved_s is not None
            }
            error = None
            if choice and not self._time_limit.is_over:
                outputs = self._rounding.compare(self._state, self._rest, choices=[choice])
                if not isinstance(outputs, Failure):
                    error = used_budget(outputs[0].compared, self._request.budget)
            predicted_s = self._begin.total_s - math.fsum(each for each in saved if each is not None)
            found.append(results.UniformPrecision(**storage.text_parts, predicted_s=predicted_s, error=error))
        return tuple(found)

    def _points(self, factor: float) -> tuple[results.PrecisionPoint, ...]:
        """Return the fastest choices at budgets between the smallest error of a layer and that of all."""
        errors = [each.error for each in self._options if each.error]
        if not errors:
            return ()
        least, most = min(errors), math.hypot(*errors)
        points = {}
        for number in range(POINTS):
            choice, _ = self._fastest(least * (most / least) ** (number / (POINTS - 1)) * MARGIN)
            point = results.PrecisionPoint(
                error=factor * _root_sum(choice), predicted_s=self._begin.total_s - _saved(choice)
            )
            points[point.error] = point
        return tuple(points[error] for error in sorted(points))

    def _key(self, number: int) -> tuple[str, int]:
        return self._layers[number].kernel, self._layers[number].call

    def _float32_s(self, number: int) -> float:
        known = self._begin.kernels.get(self._layers[number].kernel)
        return known.seconds if known else 0.0


def _root_sum(options: Sequence[_Option]) -> float:
    """Return the error that the options' own errors predict, as if they were independent."""
    return math.hypot(*(each.error for each in options))


def error_factor(error: float, predicted: float) -> float:
    """Return a measured error as a multiple of the predicted one; weights that lose nothing predict none."""
    return max(LEAST_FACTOR, error / predicted) if predicted else 1.0


def _saved(options: Sequence[_Option]) -> float:
    return math.fsum(each.saved_s for each in options)
