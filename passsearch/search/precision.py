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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import TypeAlias

import passsearch.results as results
from passsearch.catalog import CatalogEntry
from passsearch.core import UNLIMITED, BuildOptions, Candidate, Failure, PassSpec, Pipeline, TimeLimit
from passsearch.evaluate import KernelProfiler, RoundedOutputs, RoundedWeights, class_loss, used_budget
from passsearch.search.class_bound import widest_bound
from passsearch.search.composition import has_kernel_schedules
from passsearch.search.kernel_times import OutOfTime
from passsearch.search.layer_table import MARGIN, LayerTable, Option, error_factor, root_sum, saved_s_of
from passsearch.search.precision_request import ACTIVATIONS, PrecisionRequest
from passsearch.search.storage_times import StorageTimes

PRECISION = "precision"
"""Name of the candidate whose layers have precisions of their own."""

MOST_CASES = 4
"""Most inputs on which the error of a single layer is measured."""

MOST_ROUNDS = 4
"""Most choices whose error is measured as a whole before one is built."""

MOST_BUILDS = 3
"""Most choices that are built: what the gate refuses is decided again with a smaller budget."""

BOUND_MARGIN = 1.25
"""Times the measured error that outputs may deviate by where the budget is of classes."""

LEAST_ERROR = 1e-9
"""Error below which no bound is looked for, where no layer has any."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Measured:
    """What several layers together do to outputs, measured on all inputs.

    Attributes:
        error: Deviation, as a share of the largest.
        loss: What the budget limits, in its unit.
        rows: Number of rows with a class; 0 for a budget that is none of classes.
    """

    error: float
    loss: float
    rows: int = 0


@dataclass(frozen=True)
class Found:
    """A choice within the budget.

    Attributes:
        choice: The options.
        bound: The bound on the root of their summed squared errors.
        factor: Measured error by that root.
        measured: What they do to outputs.
    """

    choice: Sequence[Option]
    bound: float
    factor: float = 1.0
    measured: Measured = Measured(0.0, 0.0)


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
        request: PrecisionRequest,
        rounding: RoundedWeights,
        entries: Sequence[CatalogEntry],
        *,
        time_limit: TimeLimit = UNLIMITED,
        build: BuildOptions,
    ) -> None:
        """Prepare a decision; see ``Composer`` for the arguments."""
        self._profiler, self._rounding, self._request, self._build = profiler, rounding, request, build
        self._entries = entries
        self._times = StorageTimes(profiler, entries, time_limit=time_limit, build=build)
        self._time_limit = time_limit
        self._measured: dict[frozenset[tuple[int, int]], Measured] = {}

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
        # Weights that keep all their numbers in 16 bits begin in float32, too.
        pipeline = Pipeline(tuple(step for step in pipeline.passes if step.name != entry.name))
        if not has_kernel_schedules(pipeline, self._entries):
            return Failure("compile_error", "apply", entry.name, "no pass of the pipeline schedules single kernels")
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
        timed = self._times.time(pipeline, entry)
        if isinstance(timed, Failure):
            return timed
        self._table = LayerTable(layers, *timed)
        self._measure_layers()
        return self._within_budget(pipeline, evaluate)

    def _measure_layers(self) -> None:
        """Measure the error of every layer in every storage that saves time."""
        cases = self._rounding.usual_cases(MOST_CASES)
        for number in range(len(self._table.layers)):
            saving = [place for place, saved_s in enumerate(self._table.saved[number]) if (saved_s or 0.0) > 0]
            self._table.notes.append("" if saving else self._reason(number))
            if not saving or self._time_limit.is_over:
                continue
            choices = [{self._table.key(number): self._table.storages[place].arguments} for place in saving]
            found = self._rounding.compare(self._state, self._rest, choices=choices, cases=cases)
            if isinstance(found, Failure):
                self._table.notes[-1] = f"its error was not measured: {found.reason}"
                continue
            for place, outputs in zip(saving, found, strict=True):
                saved_s = self._table.saved[number][place]
                # Activations that cannot be rounded leave the option that rounds weights alone.
                is_asked = outputs.activations or ACTIVATIONS not in self._table.storages[place].arguments
                if outputs.narrowed and is_asked and saved_s is not None:
                    error = used_budget(outputs.compared, self._request.budget.bound)
                    self._table.options.append(Option(number, place, saved_s, error))
                elif outputs.notes:
                    self._table.notes[-1] = outputs.notes[0]

    def _reason(self, number: int) -> str:
        """Return why no storage is an option for a layer."""
        if any(saved_s is not None for saved_s in self._table.saved[number]):
            return "no storage makes it faster"
        if self._table.storages and not self._time_limit.is_over:
            # The pass says why it leaves weights as they are, whatever the inputs.
            choice, cases = {self._table.key(number): self._table.storages[0].arguments}, self._rounding.usual_cases(1)
            found = self._rounding.compare(self._state, self._rest, choices=[choice], cases=cases)
            if not isinstance(found, Failure) and found[0].notes and not found[0].narrowed:
                return found[0].notes[0]
        return "no storage narrows its weights"

    # The decision.

    def _within_budget(self, begin: Pipeline, evaluate: Evaluate) -> results.PrecisionDecision | Failure:
        budget, failure = self._request.budget, ""
        gain: Gain | None = None
        # What the gate refuses is decided again with less: a larger factor on errors, or a smaller bound on them.
        least, most = 0.0, math.hypot(*(each.error for each in self._table.options)) * MARGIN
        found = Found([], budget.bound)
        for _ in range(MOST_BUILDS):
            decided = self._bisected(most) if budget.is_of_classes else self._corrected(least)
            if isinstance(decided, Failure):
                return decided
            found = decided
            if not found.choice:
                break
            if budget.is_of_classes:
                self._rounding.bound_error(min(budget.bound, BOUND_MARGIN * found.measured.error))
            outcome = evaluate(Candidate(self._narrowed(begin, found.choice), self._build, PRECISION))
            if isinstance(outcome, Gain):
                gain, failure = outcome, ""
                break
            failure = f"{outcome.kind}: {outcome.reason}"
            if outcome.kind != "wrong_result":
                break
            _log.info("these precisions are refused, so less is allowed: %s", outcome.reason)
            least, most = 1.5 * max(found.factor, least), found.bound / 1.5
        return self._stated(found, gain, failure=failure)

    def _narrowed(self, begin: Pipeline, choice: Sequence[Option]) -> Pipeline:
        """Return the pipeline with these storages, and the fastest schedules of its kernels."""
        entry = self._request.entry
        return self._times.scheduled(begin, PassSpec.of(entry.name, kernels=self._table.kernels(choice)), entry)

    def _corrected(self, least: float) -> Found | Failure:
        """Return the fastest choice whose measured error is within the budget, which is a share of the outputs.

        Args:
            least: Least factor on errors, larger after the gate has refused a choice; 0 for any.
        """
        budget, factor = self._request.budget.bound, least or 1.0
        best = Found([], budget / factor, factor)
        earlier: list[list[Option]] = []
        for _ in range(MOST_ROUNDS):
            choice = self._table.fastest(budget / factor)[0]
            if not choice or choice in earlier:
                break
            earlier.append(choice)
            measured = self._measure(choice)
            if isinstance(measured, Failure):
                return measured
            ratio = error_factor(measured.error, root_sum(choice))
            _log.info(
                "%d layers: %.2g of the outputs' largest, %.2f times the prediction", len(choice), measured.error, ratio
            )
            if measured.error <= budget and saved_s_of(choice) > saved_s_of(best.choice):
                best = Found(choice, budget / ratio, ratio, measured)
            # Looser only if that can change the choice.
            factor = max(ratio * MARGIN, least)
        return best

    def _bisected(self, most: float) -> Found | Failure:
        """Return the fastest choice of the widest bound on errors with which no more classes change than allowed."""
        least = min((each.error for each in self._table.options if each.error), default=LEAST_ERROR) / 2
        most = max(most, 2 * least)

        def is_within(choice: Sequence[Option]) -> bool | Failure:
            measured = self._measure(choice) if choice else Measured(0.0, 0.0)
            if isinstance(measured, Failure):
                return measured
            _log.info("%d layers: %.2g of the rows, %.2g of the largest", len(choice), measured.loss, measured.error)
            budget = self._request.budget
            return measured.loss <= budget.limit and measured.error <= budget.bound

        found = widest_bound(least, most, decide=lambda bound: self._table.fastest(bound)[0], is_within=is_within)
        if isinstance(found, Failure) or not found.choice:
            return found if isinstance(found, Failure) else Found([], found.bound)
        measured = self._measure(found.choice)
        if isinstance(measured, Failure):
            return measured
        return Found(found.choice, found.bound, error_factor(measured.error, root_sum(found.choice)), measured)

    def _measure(self, choice: Sequence[Option]) -> Measured | Failure:
        """Return what several layers together do to outputs, on all inputs."""
        key = frozenset((each.layer, each.storage) for each in choice)
        if key not in self._measured:
            found = self._rounding.compare(self._state, self._rest, choices=[self._table.storages_of(choice)])
            measured = found if isinstance(found, Failure) else self._read(found[0])
            if isinstance(measured, Failure):
                return measured
            self._measured[key] = measured
        return self._measured[key]

    def _read(self, outputs: RoundedOutputs) -> Measured | Failure:
        budget, classes = self._request.budget, outputs.compared.classes
        error = used_budget(outputs.compared, budget.bound)
        loss = class_loss(classes, budget.unit) if budget.is_of_classes else error
        if loss is None:
            reason = str(classes.get("fault") or "the first output has no classes on these inputs")
            return Failure("wrong_result", "measure", "", reason)
        return Measured(error, loss, classes.get("rows", 0) if budget.is_of_classes else 0)

    # What the result says.

    def _stated(self, found: Found, gain: Gain | None, *, failure: str) -> results.PrecisionDecision:
        budget, begin_s = self._request.budget, self._table.begin.total_s
        used = found.choice if gain else []
        predicted = found.factor * root_sum(used)
        return results.PrecisionDecision(
            budget=budget.limit,
            unit=budget.unit,
            bound=found.bound,
            compared_with=self._request.compared_with,
            samples=self._request.samples,
            pipeline=str(gain.pipeline) if gain else None,
            begin_s=begin_s,
            predicted_s=begin_s - saved_s_of(used),
            bound_s=begin_s - self._table.fastest(found.bound, with_noise=True)[1],
            predicted_error=predicted,
            error=found.measured.error if used else 0.0,
            predicted_loss=self._rounding.uncertain_rows(predicted) if used and budget.is_of_classes else None,
            loss=found.measured.loss if used and budget.is_of_classes else None,
            rows=max((each.rows for each in self._measured.values()), default=0),
            nearest=None if used or failure else self._nearest(),
            factor=found.factor,
            rounds=len(self._measured),
            gain=gain.ratio if gain else None,
            refusal=failure,
            layers=tuple(self._table.stated(number, used, found.bound) for number in range(len(self._table.layers))),
            uniform=self._uniform(),
            points=self._table.points(found.factor),
            precision=budget.precision,
        )

    def _nearest(self) -> float | None:
        """Return the least error, or loss of classes, that was measured with any layer in fewer bits."""
        if self._request.budget.is_of_classes:
            return min((each.loss for each in self._measured.values()), default=None)
        return min((each.error for each in self._table.options), default=None)

    def _uniform(self) -> tuple[results.UniformPrecision, ...]:
        """Return what one storage for all layers would take and cost, each measured as a whole."""
        found = []
        for place, storage in enumerate(self._table.storages):
            choice = self._table.everywhere(place)
            error = loss = None
            if choice and not self._time_limit.is_over:
                outputs = self._rounding.compare(self._state, self._rest, choices=[choice])
                measured = outputs if isinstance(outputs, Failure) else self._read(outputs[0])
                if not isinstance(measured, Failure):
                    error, loss = measured.error, measured.loss
            predicted_s = self._table.everywhere_s(place)
            found.append(
                results.UniformPrecision(**storage.text_parts, predicted_s=predicted_s, error=error, loss=loss)
            )
        return tuple(found)
