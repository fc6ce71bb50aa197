"""What each storage of each layer's weights saves and costs, and the fastest choice within an error."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import passsearch.results as results
from passsearch.core import Json
from passsearch.dialects.rounding import RoundedLayer
from passsearch.search.composition import LEAST_GAIN
from passsearch.search.decision_choice import best_subset
from passsearch.search.storage_times import TimedStorage

MARGIN = 1.02
"""Factor on measured errors: the next choice must not be above the budget by a hair."""

POINTS = 12
"""Number of budgets for which the report shows the fastest choice."""

LEAST_FACTOR = 0.1
"""Least factor on errors: roundings that cancel on some inputs do not on others."""

SOLVER_S = 20.0
"""Longest time of one decision, in seconds."""


@dataclass(frozen=True)
class Option:
    """A storage for one layer, with its predicted saving in seconds, and its error."""

    layer: int
    storage: int
    saved_s: float
    error: float


@dataclass
class LayerTable:
    """The layers of a network, each with what every storage of its weights saves and costs.

    Attributes:
        layers: The layers.
        begin: The times of all kernels with weights in float32.
        storages: Those in every other storage.
        options: The storages that save time, by layer, with their errors.
        notes: Why a layer has no option, for each layer; empty where it has one.
    """

    layers: Sequence[RoundedLayer]
    begin: TimedStorage
    storages: Sequence[TimedStorage]
    options: list[Option] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Look up what each storage saves."""
        self.saved = [[self._saving(layer, storage) for storage in self.storages] for layer in self.layers]

    def _saving(self, layer: RoundedLayer, storage: TimedStorage) -> float | None:
        """Return the seconds that a storage saves for one call of a layer; ``None`` if it changes nothing."""
        before, after = self.begin.kernels.get(layer.kernel), storage.kernels.get(layer.kernel)
        if before is None or after is None or before.digest == after.digest:
            return None
        return before.seconds - after.seconds

    def fastest(self, budget: float, *, with_noise: bool = False) -> tuple[list[Option], float]:
        """Return the fastest choice whose predicted error is within a budget, and the most that any may save.

        Savings below the noise are not used, except ``with_noise``.
        """
        options = [
            each
            for each in self.options
            if each.error <= budget and (with_noise or each.saved_s >= LEAST_GAIN * self.float32_s(each.layer))
        ]
        if not options:
            return [], 0.0
        layers = sorted({each.layer for each in options})
        rows = [[float(each.layer == layer) for each in options] for layer in layers]
        rows.append([(each.error / budget) ** 2 for each in options])
        savings = [each.saved_s for each in options]
        marks, most_s = best_subset(savings, rows, [1.0] * len(rows), longest_s=SOLVER_S)
        choice = [each for each, is_in in zip(options, marks, strict=True) if is_in]
        # The solver adds up in another order, so that its bound may be below what it has found by a rounding.
        return choice, max(most_s, saved_s_of(choice))

    def kernels(self, choice: Sequence[Option]) -> dict[str, Json]:
        """Return the argument ``kernels`` of the pass that narrows weights."""
        numbers = {
            layer.kernel: {other.call for other in self.layers if other.kernel == layer.kernel} for layer in self.layers
        }
        by_kernel: dict[str, dict[int, int]] = {}
        for each in choice:
            layer = self.layers[each.layer]
            by_kernel.setdefault(layer.kernel, {})[layer.call] = each.storage
        kernels: dict[str, Json] = {}
        for kernel, storages in sorted(by_kernel.items()):
            is_whole = storages.keys() == numbers[kernel] and len(set(storages.values())) == 1
            for call, place in sorted(storages.items()):
                kernels[kernel if is_whole else f"{kernel}:{call}"] = dict(self.storages[place].arguments)
        return kernels

    def storages_of(self, choice: Sequence[Option]) -> dict[tuple[str, int], Mapping[str, Json]]:
        """Return the arguments of the pass by layer, as ``RoundedWeights.compare`` takes them."""
        return {self.key(each.layer): self.storages[each.storage].arguments for each in choice}

    def everywhere(self, place: int) -> dict[tuple[str, int], Mapping[str, Json]]:
        """Return one storage for all layers that it makes narrower."""
        storage = self.storages[place].arguments
        return {self.key(number): storage for number, own in enumerate(self.saved) if own[place] is not None}

    def everywhere_s(self, place: int) -> float:
        """Return the predicted seconds of an inference with one storage for all layers."""
        return self.begin.total_s - math.fsum(saved_s for own in self.saved if (saved_s := own[place]) is not None)

    def stated(self, number: int, used: Sequence[Option], bound: float) -> results.LayerPrecision:
        """Return what was decided for a layer, by the bound on errors."""
        layer, total = self.layers[number], sum(each.error**2 for each in used)
        own = next((each for each in used if each.layer == number), None)
        errors = {each.storage: each.error for each in self.options if each.layer == number}
        others = [
            results.LayerStorage(**self.storages[place].text_parts, saved_s=saved_s, error=errors.get(place))
            for place, saved_s in enumerate(self.saved[number])
            if saved_s is not None and (own is None or place != own.storage)
        ]
        stored = self.storages[own.storage].text_parts if own else {"storage": "float32"}
        return results.LayerPrecision(
            **stored,
            kernel=layer.kernel,
            call=layer.call,
            weights=layer.weights,
            float32_s=self.float32_s(number),
            saved_s=own.saved_s if own else 0.0,
            error=own.error if own else None,
            error_share=own.error**2 / total if own and total else 0.0,
            reason="" if own else self.notes[number] or self._left_out(errors, bound),
            others=tuple(others),
        )

    def _left_out(self, errors: Mapping[int, float], bound: float) -> str:
        """Return why a layer with options stays float32."""
        if not errors:
            return "no time was left to measure its error"
        if min(errors.values()) > bound:
            return "each storage alone is over the budget"
        return "others save more for their share of the budget, or it saves less than the noise"

    def points(self, factor: float) -> tuple[results.PrecisionPoint, ...]:
        """Return the fastest choices at budgets between the smallest error of a layer and that of all."""
        errors = [each.error for each in self.options if each.error]
        if not errors:
            return ()
        least, most = min(errors), math.hypot(*errors)
        points = {}
        for number in range(POINTS):
            choice, _ = self.fastest(least * (most / least) ** (number / (POINTS - 1)) * MARGIN)
            point = results.PrecisionPoint(
                error=factor * root_sum(choice), predicted_s=self.begin.total_s - saved_s_of(choice)
            )
            points[point.error] = point
        return tuple(points[error] for error in sorted(points))

    def key(self, number: int) -> tuple[str, int]:
        """Return kernel and call of a layer."""
        return self.layers[number].kernel, self.layers[number].call

    def float32_s(self, number: int) -> float:
        """Return the seconds of a layer with weights in float32."""
        known = self.begin.kernels.get(self.layers[number].kernel)
        return known.seconds if known else 0.0


def root_sum(options: Sequence[Option]) -> float:
    """Return the error that the options' own errors predict, as if they were independent."""
    return math.hypot(*(each.error for each in options))


def error_factor(error: float, predicted: float) -> float:
    """Return a measured error as a multiple of the predicted one; weights that lose nothing predict none."""
    return max(LEAST_FACTOR, error / predicted) if predicted else 1.0


def saved_s_of(options: Sequence[Option]) -> float:
    """Return the seconds that options save together."""
    return math.fsum(each.saved_s for each in options)
