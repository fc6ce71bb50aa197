"""Compares outputs with the reference before anything is timed, and summarizes them for a deployment. numpy only."""

import hashlib
import itertools
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.case_inputs import case_inputs
from passsearch.dialects.contract import Array, Executable
from passsearch.dialects.input_values import EDGES
from passsearch.measure.mixture import Mixture

DIGEST_VALUES = 64
"""Number of values that a digest keeps of each output."""

MIN_CLASSES = 10
"""Number of columns from which on a table counts as class scores."""

TINY = 1e-30
"""Smallest scale of a relative deviation; keeps outputs that are all zero from a division by zero."""

MOVEMENTS = 4
"""Number of times that the floats of an edge case are moved by one rounding, each time in other directions."""

CHANGE = "change_"
"""Beginning of the name under which the reference's file keeps the change of an edge case."""


def verify(
    executable: Executable,
    *,
    inputs: CheckInputs,
    cases: Sequence[int | str],
    outputs: Path,
    reference: Path | None,
    longest_s: float = math.inf,
    total_s: float = math.inf,
) -> dict[str, Any]:
    """Run an artifact on the inputs of every case and compare its outputs with the reference's.

    Args:
        executable: The artifact.
        inputs: The network's inputs.
        cases: Seeds of random inputs and names of edge inputs; see ``case_inputs``.
        outputs: File that gets the outputs if there is no reference, as arrays ``<case>_<index>`` of one ``.npz``.
        reference: File with the reference's outputs, on whose cases they are compared. ``None`` makes these outputs
            the reference.
        longest_s: Longest run in seconds; if all took longer so far, the remaining cases are left out.
        total_s: Seconds after which the remaining cases are left out, and for a reference the remaining movements of
            edge cases.

    Returns:
        ``run_s`` (seconds of the fastest run), ``cases`` (number of cases that ran), ``is_cut`` (whether cases that the
        reference has were left out for ``longest_s``), ``deviation`` (the largest, see ``relative_deviation``), its
        ``case``, ``deviations`` (by case), ``changes`` (by edge case, see ``_changes``), ``mismatch`` (a difference in
        number, shape or type, or why these outputs can be no reference; empty without one) and ``leads`` (see
        ``_leads``; ``None`` after a mismatch).
    """
    if reference is None:
        results, seconds = _run_cases(executable, inputs, cases=cases, longest_s=math.inf, total_s=total_s)
        run = cases[: len(seconds)]
        lost = next((key for key in results if key.partition("_")[0].isdigit() and _is_lost(results[key])), "")
        if lost:
            case, _, index = lost.partition("_")
            reason = f"output {index} has no finite value on inputs of seed {case}, so no other output can be compared"
            common = {"run_s": min(seconds), "cases": len(run), "is_cut": False, "case": int(case), "mismatch": reason}
            return {**common, "deviation": math.inf, "leads": None, "deviations": {}, "changes": {}}
        edges = [case for case in run if case in EDGES]
        changes = _changes(executable, inputs, expected=results, cases=edges, total_s=total_s)
        change_arrays = {f"{CHANGE}{case}": np.asarray(change) for case, change in changes.items()}
        _save(outputs, results | change_arrays)
        leads = _leads(results, results, cases=run)
        common = {"run_s": min(seconds), "cases": len(run), "is_cut": False, "case": "", "mismatch": ""}
        deviations = {str(case): 0.0 for case in run}
        return {**common, "deviation": 0.0, "leads": leads, "deviations": deviations, "changes": changes}
    with np.load(reference) as file:
        compared = [case for case in cases if f"{case}_0" in file.files]
        results, seconds = _run_cases(executable, inputs, cases=compared, longest_s=longest_s, total_s=total_s)
        changes = {case: float(file[f"{CHANGE}{case}"]) for case in EDGES if f"{CHANGE}{case}" in file.files}
        run = compared[: len(seconds)]
        is_cut = len(run) < len(compared) and min(seconds) > longest_s
        common = {"run_s": min(seconds), "cases": len(run), "is_cut": is_cut, "case": "", "mismatch": ""}
        common |= {"deviations": {}, "changes": changes}
        if {key for key in file.files if key.rpartition("_")[0] in map(str, run)} != set(results):
            return {**common, "deviation": math.inf, "leads": None, "mismatch": "the number of outputs differs"}
        expected = {key: file[key] for key in results}
    mismatch = next(filter(None, (_mismatch(results[key], expected[key]) for key in results)), "")
    deviations = {key: relative_deviation(results[key], expected[key]) for key in results}
    by_case: dict[str, float] = {}
    for key, deviation in deviations.items():
        case, _, _ = key.rpartition("_")
        by_case[case] = max(deviation, by_case.get(case, 0.0))
    worst = max(by_case, key=lambda case: by_case[case])
    leads = None if mismatch else _leads(results, expected, cases=run)
    largest = {"deviation": by_case[worst], "case": worst, "deviations": by_case}
    return {**common, **largest, "mismatch": mismatch, "leads": leads}


def _changes(
    executable: Executable,
    inputs: CheckInputs,
    *,
    expected: Mapping[str, Array],
    cases: Sequence[str],
    total_s: float,
) -> dict[str, float]:
    """Return how much the outputs on edge inputs change when these inputs move by one rounding.

    Returns:
        The largest deviation over ``MOVEMENTS`` runs, by case; without cases for which there was no time, and without
        those that no rounding moves.
    """
    largest: dict[str, float] = {}
    start = time.perf_counter()
    for case, seed in itertools.product(cases, range(MOVEMENTS)):
        arrays = case_inputs(inputs, case)
        neighbours = neighbouring_inputs(arrays, seed=seed)
        if time.perf_counter() - start > total_s or all(neighbours[name] is arrays[name] for name in arrays):
            continue
        outputs = executable.run(neighbours)
        deviations = [relative_deviation(array, expected[f"{case}_{index}"]) for index, array in enumerate(outputs)]
        largest[case] = max(largest.get(case, 0.0), *deviations)
    # An infinite change, as that of an index, would admit everything.
    return {case: change for case, change in largest.items() if math.isfinite(change)}


def neighbouring_inputs(inputs: Mapping[str, Array], *, seed: int) -> dict[str, Array]:
    """Return the inputs with every float other than 0 replaced by a neighbouring number, above or below."""
    rng = np.random.default_rng(seed)
    return {
        name: _neighbours(array, rng) if array.dtype.kind == "f" and array.any() else array
        for name, array in inputs.items()
    }


def _neighbours(array: Array, rng: np.random.Generator) -> Array:
    limits = np.where(rng.random(array.shape) < 0.5, np.inf, -np.inf).astype(array.dtype)
    return np.where(array == 0, array, np.nextafter(array, limits))


def _run_cases(
    executable: Executable,
    inputs: CheckInputs,
    *,
    cases: Sequence[int | str],
    longest_s: float,
    total_s: float,
) -> tuple[dict[str, Array], Sequence[float]]:
    """Return the outputs by case and index, and the seconds of each case that ran."""
    results: dict[str, Array] = {}
    seconds: list[float] = []
    for case in cases:
        arrays = case_inputs(inputs, case)
        start = time.perf_counter()
        outputs = executable.run(arrays)
        # By weights where there are several cases, as the latencies that a limit comes from.
        seconds.append(executable.run_s if isinstance(executable, Mixture) else time.perf_counter() - start)
        results |= {f"{case}_{index}": array for index, array in enumerate(outputs)}
        # Not the last one: other work may stall a quick run.
        if min(seconds) > longest_s or sum(seconds) > total_s:
            break
    return results, seconds


def _is_lost(output: Array) -> bool:
    """Return whether an output has floats, and none of them is finite: it would agree with any other such output."""
    return output.dtype.kind == "f" and output.size > 0 and not np.isfinite(output).any()


def _save(path: Path, results: Mapping[str, Array]) -> None:
    # Renamed at the end: a process that is killed while it writes must not leave half a reference.
    unfinished = path.with_name("partial-" + path.name)
    np.savez(unfinished, **results)  # type: ignore[arg-type]
    unfinished.replace(path)


def _mismatch(actual: Array, expected: Array) -> str:
    if (actual.shape, actual.dtype) == (expected.shape, expected.dtype):
        return ""
    return f"an output is {actual.dtype}{list(actual.shape)}, the reference's is {expected.dtype}{list(expected.shape)}"


def relative_deviation(actual: Array, expected: Array) -> float:
    """Return the largest deviation, divided by the largest expected magnitude.

    The result is infinite if the shapes or types differ, if a value is finite in one array only, or if integers or
    booleans are not equal.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return float("inf")
    if not np.issubdtype(expected.dtype, np.floating):
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    finite = np.isfinite(expected)
    if not np.array_equal(actual[~finite], expected[~finite], equal_nan=True) or not np.isfinite(actual[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(expected[finite]).max()), TINY)
    # In float64, so that the difference of two float16 values does not overflow.
    return float(np.abs(actual[finite].astype("float64") - expected[finite]).max()) / scale


def largest_deviation(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest deviation of any output."""
    return max((relative_deviation(*pair) for pair in zip(actual, expected, strict=True)), default=0.0)


def _leads(
    actual: Mapping[str, Array], expected: Mapping[str, Array], *, cases: Sequence[int | str]
) -> list[float] | None:
    """Return the lead of the reference's best class over its second, for every row of the random inputs.

    A lead is divided by the largest magnitude. It is negative if the outputs have another best class. The result is
    ``None`` unless exactly one output is a table of class scores: floats, ``[batch, classes]``. Edge inputs are left
    out.
    """
    first_case = (key for key in expected if key.startswith(f"{cases[0]}_"))
    tables = [key.rpartition("_")[2] for key in first_case if _is_score_table(expected[key])]
    if len(tables) != 1:
        return None
    keys = [f"{case}_{tables[0]}" for case in cases if isinstance(case, int)]
    return [lead for key in keys for lead in _row_leads(actual[key], expected[key])]


def _is_score_table(output: Array) -> bool:
    return np.issubdtype(output.dtype, np.floating) and output.ndim == 2 and output.shape[1] >= MIN_CLASSES


def _row_leads(actual: Array, expected: Array) -> list[float]:
    if not np.isfinite(expected).all():
        return []
    second, first = np.partition(expected.astype("float64"), (-2, -1), axis=1)[:, -2:].T
    scale = max(float(np.abs(expected).max()), TINY)
    same = actual.argmax(axis=1) == expected.argmax(axis=1)
    return [float(lead) for lead in np.where(same, first - second, second - first) / scale]


def digest(outputs: Sequence[Array]) -> list[dict[str, Any]]:
    """Summarize outputs: shape, dtype, largest finite magnitude, SHA-256 and evenly spaced values of each."""
    return [
        {
            "shape": list(output.shape),
            "dtype": str(output.dtype),
            "max_abs": float(np.abs(output[np.isfinite(output)].astype("float64")).max(initial=0.0)),
            "sha256": hashlib.sha256(output.tobytes()).hexdigest(),
            "values": _spaced_values(output),
        }
        for output in outputs
    ]


def _spaced_values(output: Array) -> list[float | int | str]:
    """Return evenly spaced values of the flattened array, its first and last among them."""
    last, count = output.size - 1, min(output.size, DIGEST_VALUES)
    values = [output.flat[index * last // max(count - 1, 1)].item() for index in range(count)]
    # JSON has no number for nan and infinity, so they are text.
    return [value if math.isfinite(value) else str(value) for value in values]
