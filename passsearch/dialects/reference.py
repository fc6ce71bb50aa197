"""Makes the outputs that all others are compared with, from any function that runs the network. numpy only.

The file of a reference is an ``.npz`` with

* ``<case>_<index>``: an output on the inputs of a case (``passsearch.dialects.case_inputs``),
* ``change_<case>``: the change of an edge case's outputs when its inputs move by one rounding,
* ``rounded`` and ``rounded_mean``: in a quantised network, the same on the first random inputs when its constants do,
  as a share of the largest output, and as the mean change of an output, as a share of its mean magnitude,
* ``mean_<index>`` and ``slices_<index>_<axis>``: on the first random inputs, the same as the mean change of an output,
  as a share of its mean magnitude, and as the largest change of every slice along an axis.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.case_inputs import case_inputs
from passsearch.dialects.comparison import (
    compare_special,
    mean_deviation,
    relative_deviation,
    slice_axes,
    slice_magnitudes,
)
from passsearch.dialects.contract import Array
from passsearch.standalone.deployment.input_values import OVERFLOWING

RunNetwork: TypeAlias = Callable[[Mapping[str, Array]], Sequence[Array]]
"""Function that returns the network's outputs on inputs by name."""

MovedNetwork: TypeAlias = Callable[[int], RunNetwork | None]
"""Function that returns the network with constants moved by a seed; ``None`` where that has no meaning."""

MOVEMENTS = 4
"""Number of times that the floats of a case are moved by one rounding, each time in other directions."""

MOVED = ("small", "large", "huge")
"""Edge cases that allow more than others where rounding changes the reference itself."""

CHANGE, MEAN, SLICES = "change_", "mean_", "slices_"
"""Beginnings of the names of changes in the reference's file."""

ROUNDED, ROUNDED_MEAN = "rounded", "rounded_mean"
"""Names there of what moved constants change."""


@dataclass(frozen=True)
class ReferenceOutputs:
    """The outputs of a network on the inputs of its check.

    Attributes:
        outputs: Outputs by case and index, ``<case>_<index>``.
        changes: Changes when inputs move by one rounding, by their names in the file.
        run_s: Seconds of each case that ran.
    """

    outputs: Mapping[str, Array]
    changes: Mapping[str, Array]
    run_s: Sequence[float]

    def save(self, path: Path) -> None:
        """Write the file of the reference, whole or not at all."""
        # Renamed at the end: a process that is killed while it writes must not leave half a reference.
        unfinished = path.with_name("partial-" + path.name)
        np.savez(unfinished, **self.outputs, **self.changes)  # type: ignore[arg-type]
        unfinished.replace(path)


def make_reference(
    run: RunNetwork,
    inputs: CheckInputs,
    *,
    cases: Sequence[int | str],
    total_s: float = math.inf,
    moved: MovedNetwork | None = None,
) -> ReferenceOutputs:
    """Run the network on the inputs of every case, and again on inputs that are moved by one rounding.

    Args:
        run: Runs the network.
        inputs: The network's inputs.
        cases: The cases, the most important ones first.
        total_s: Seconds after which the remaining cases are left out, and as many for the movements.
        moved: Returns the network with its constants moved; see ``SourceNetwork.moved``.
    """
    outputs: dict[str, Array] = {}
    seconds: list[float] = []
    for case in cases:
        arrays = case_inputs(inputs, case)
        start = time.perf_counter()
        found = run(arrays)
        seconds.append(time.perf_counter() - start)
        outputs |= {f"{case}_{index}": np.asarray(array) for index, array in enumerate(found)}
        if sum(seconds) > total_s:
            break
    done = list(cases[: len(seconds)])
    changes = _changes(run, inputs, outputs, cases=done, total_s=total_s)
    if moved is not None:
        by_constants = _changes_by_constants(moved, inputs, outputs, cases=done, total_s=total_s)
        changes |= {name: np.maximum(change, changes.get(name, 0.0)) for name, change in by_constants.items()}
    # Without its change, an overflow that depends on the order of a sum would look like an error.
    dropped = [case for case in done if case in OVERFLOWING and CHANGE + str(case) not in changes]
    kept = {key: array for key, array in outputs.items() if key.rpartition("_")[0] not in dropped}
    return ReferenceOutputs(kept, changes, seconds)


def changes_of_slices(file: Mapping[str, Array], index: int) -> dict[int, Array] | None:
    """Return by axis the largest change of every slice of an output; ``None`` if the reference's file has none."""
    prefix = f"{SLICES}{index}_"
    found = {int(name.removeprefix(prefix)): file[name] for name in file if name.startswith(prefix)}
    return found if f"{MEAN}{index}" in file else None


def _changes(
    run: RunNetwork,
    inputs: CheckInputs,
    outputs: Mapping[str, Array],
    *,
    cases: Sequence[int | str],
    total_s: float,
) -> dict[str, Array]:
    """Return the changes in the form of the file; without cases for which there was no time."""
    start = time.perf_counter()
    changes: dict[str, Array] = {}
    first = next((case for case in cases if isinstance(case, int)), None)
    for case in [case for case in cases if case == first or case in MOVED]:
        arrays = case_inputs(inputs, case)
        for seed in range(MOVEMENTS):
            neighbours = neighbouring_inputs(arrays, seed=seed)
            if time.perf_counter() - start > total_s or all(neighbours[name] is arrays[name] for name in arrays):
                continue
            pairs = [(np.asarray(each), outputs[f"{case}_{index}"]) for index, each in enumerate(run(neighbours))]
            found = _edge_change(str(case), pairs) if isinstance(case, str) else _random_changes(pairs)
            changes |= {name: np.maximum(change, changes.get(name, 0.0)) for name, change in found.items()}
    # An infinite change, as that of an index, would admit everything.
    return {name: change for name, change in changes.items() if np.isfinite(change).all()}


def _changes_by_constants(
    moved: MovedNetwork,
    inputs: CheckInputs,
    outputs: Mapping[str, Array],
    *,
    cases: Sequence[int | str],
    total_s: float,
) -> dict[str, Array]:
    """Return what moved constants change on the inputs of ``_changes``; nothing where none move, or time is short."""
    start, changes = time.perf_counter(), dict[str, Array]()
    first = next((case for case in cases if isinstance(case, int)), None)
    for seed in range(MOVEMENTS):
        run = moved(seed) if time.perf_counter() - start <= total_s else None
        if run is None:
            break
        for case in [case for case in cases if case == first or case in MOVED]:
            results = enumerate(run(case_inputs(inputs, case)))
            pairs = [(np.asarray(each), outputs[f"{case}_{index}"]) for index, each in results]
            found = _edge_change(str(case), pairs) if isinstance(case, str) else _roundings(pairs)
            changes |= {name: np.maximum(change, changes.get(name, 0.0)) for name, change in found.items()}
    return {name: change for name, change in changes.items() if np.isfinite(change).all()}


def _roundings(pairs: Sequence[tuple[Array, Array]]) -> dict[str, Array]:
    largest, mean = (max(how(*pair) for pair in pairs) for how in (relative_deviation, mean_deviation))
    return {ROUNDED: np.asarray(largest), ROUNDED_MEAN: np.asarray(mean)}


def _edge_change(case: str, pairs: Sequence[tuple[Array, Array]]) -> dict[str, Array]:
    if case in OVERFLOWING:
        return {f"{CHANGE}{case}": np.asarray(max((compare_special(*pair).deviation for pair in pairs), default=0.0))}
    return {f"{CHANGE}{case}": np.asarray(max((relative_deviation(*pair) for pair in pairs), default=0.0))}


def _random_changes(pairs: Sequence[tuple[Array, Array]]) -> dict[str, Array]:
    changes: dict[str, Array] = {}
    for index, (actual, expected) in enumerate(pairs):
        changes[f"{MEAN}{index}"] = np.asarray(mean_deviation(actual, expected))
        for axis in slice_axes(expected):
            with np.errstate(invalid="ignore"):
                difference = actual.astype("float64") - expected.astype("float64")
            changes[f"{SLICES}{index}_{axis}"] = slice_magnitudes(difference, axis)
    return changes


def neighbouring_inputs(inputs: Mapping[str, Array], *, seed: int) -> dict[str, Array]:
    """Return the inputs with every finite float other than 0 replaced by a neighbouring number, above or below."""
    rng = np.random.default_rng(seed)
    return {
        name: neighbours(array, rng) if array.dtype.kind == "f" and array.any() else array
        for name, array in inputs.items()
    }


def neighbours(array: Array, rng: np.random.Generator) -> Array:
    """Return floats with every finite number other than 0 replaced by a neighbouring number, above or below."""
    limits = np.where(rng.random(array.shape) < 0.5, np.inf, -np.inf).astype(array.dtype)
    moved = np.nextafter(array, limits)
    # The neighbour of the largest number is infinite.
    return np.where((array == 0) | ~np.isfinite(array) | ~np.isfinite(moved), array, moved)
