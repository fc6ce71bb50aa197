"""Compares outputs with the reference before anything is timed, and summarizes them for a deployment. numpy only."""

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.bits import bits_by_case, bits_of
from passsearch.dialects.case_inputs import MAGNITUDES, case_inputs, is_sample
from passsearch.dialects.comparison import (
    TINY,
    Special,
    common_factor,
    compare_special,
    least_scale,
    mean_deviation,
    relative_deviation,
    scaled_deviation,
    slice_axes,
    slice_deviation,
    slice_magnitudes,
)
from passsearch.dialects.contract import Array, Executable, SourceNetwork
from passsearch.dialects.reference import (
    CHANGE,
    MEAN,
    ROUNDED,
    ROUNDED_MEAN,
    RunNetwork,
    changes_of_slices,
    make_reference,
)
from passsearch.measure.classes import compare_classes
from passsearch.measure.mixture import Mixture
from passsearch.standalone.deployment.input_values import EDGES, NOT_FINITE, OVERFLOWING

DIGEST_VALUES = 64
"""Number of values that a digest keeps of each output."""

DIGEST_SLICES = 256
"""Most slices along an axis whose magnitudes a digest keeps."""

MIN_CLASSES = 10
"""Number of columns from which on a table counts as class scores."""

SPECIAL = (*NOT_FINITE, *OVERFLOWING)
"""Cases whose outputs may have values that are not finite, which are counted."""


def verify(
    executable: Executable,
    *,
    inputs: CheckInputs,
    cases: Sequence[int | str],
    outputs: Path,
    reference: Path | None,
    longest_s: float = math.inf,
    total_s: float = math.inf,
    with_bits: bool = False,
) -> dict[str, Any]:
    """Run an artifact on the inputs of every case and compare its outputs with the reference's.

    Args:
        executable: The artifact.
        inputs: The network's inputs.
        cases: Seeds of random inputs, samples and names of edge inputs; see ``case_inputs``.
        outputs: File that gets the outputs if there is no reference; see ``passsearch.dialects.reference``.
        reference: File with the reference's outputs, on whose cases they are compared. ``None`` makes these outputs
            the reference.
        longest_s: Longest run in seconds; if all took longer so far, the remaining cases are left out.
        total_s: Seconds after which the remaining cases are left out, and for a reference the remaining movements of
            inputs.
        with_bits: True to return ``bits``, the digest of the outputs by case, on mixed magnitudes too.

    Returns:
        ``run_s`` (seconds of the fastest run), ``cases`` (number of cases that ran), ``is_cut`` (whether cases that the
        reference has were left out for ``longest_s``), the comparison (see ``compare``), ``leads`` (see ``_leads``;
        ``None`` after a mismatch) and ``classes`` (see ``compare_classes``).
    """
    if reference is None:
        begun, made = _begin_reference(executable, inputs, cases=cases, outputs=outputs, total_s=total_s)
        is_over = begun["run_s"] * begun["cases"] > total_s
        return {**begun, "bits": _bits(executable, inputs, made, is_over=is_over)} if with_bits and made else begun
    with np.load(reference) as file:
        compared = [case for case in cases if f"{case}_0" in file.files]
        results, seconds, changed = _run_cases(executable, inputs, cases=compared, longest_s=longest_s, total_s=total_s)
        run = compared[: len(seconds)]
        is_cut = len(run) < len(compared) and min(seconds) > longest_s
        common: dict[str, Any] = {"run_s": min(seconds), "cases": len(run), "is_cut": is_cut}
        is_over = is_cut or sum(seconds) > total_s
        common |= {"bits": _bits(executable, inputs, results, is_over=is_over)} if with_bits else {}
        comparison = compare(results, file, cases=run)
        if changed and not comparison["mismatch"]:
            comparison |= {"mismatch": changed, "deviation": math.inf}
        if comparison["mismatch"]:
            return {**common, **comparison, "leads": None}
        expected = {key: file[key] for key in results}
        classes = compare_classes(results, expected, inputs, cases=run)
    return {**common, **comparison, "leads": _leads(results, expected, cases=run), "classes": classes}


def _bits(
    executable: Executable, inputs: CheckInputs, results: Mapping[str, Array], *, is_over: bool
) -> dict[str, str]:
    """Return the digest of the outputs by case; if time is left, on floats of mixed magnitude too."""
    mixed = {} if is_over else {MAGNITUDES: bits_of(executable.run(case_inputs(inputs, MAGNITUDES)))}
    return bits_by_case(results) | mixed


def compare(results: Mapping[str, Array], file: Mapping[str, Array], *, cases: Sequence[int | str]) -> dict[str, Any]:
    """Compare outputs with those in the file of a reference.

    Args:
        results: Outputs by case and index, ``<case>_<index>``.
        file: The file.
        cases: Their cases.

    Returns:
        ``deviation`` (the largest, see ``relative_deviation``), its ``case``, ``deviations`` (by case), ``changes`` (by
        edge case, of the reference), ``mismatch`` (a difference in number, shape or type; empty without one), ``mean``
        and ``factor`` (the largest of an output on random inputs, see ``mean_deviation`` and ``common_factor``),
        ``mean_change`` (that of the reference when inputs move by one rounding; ``None`` if it is unknown), ``rounded``
        (what moved constants change; see ``passsearch.dialects.reference``), ``slice``
        and ``slice_of`` (the largest deviation of a slice by its own scale, and that slice in words), ``scaled`` and
        ``scaled_of`` (the same in outputs with several scales; see ``scaled_deviation``), ``special`` (by
        case, what became of values that are not finite; only where something did).
    """
    changes = {case: float(file[f"{CHANGE}{case}"]) for case in EDGES if f"{CHANGE}{case}" in file}
    names = {key for key in file if key.rpartition("_")[0] in map(str, cases)}
    if names != set(results):
        return {**_NOTHING, "changes": changes, "deviation": math.inf, "mismatch": "the number of outputs differs"}
    expected = {key: file[key] for key in results}
    mismatch = next(filter(None, (_mismatch(results[key], expected[key]) for key in results)), "")
    usual = {key: array for key, array in expected.items() if _is_usual(key)}
    by_case: dict[str, float] = {}
    special: dict[str, Special] = {}
    for key in results:
        case = key.rpartition("_")[0]
        is_edge = case in EDGES
        # On edge inputs all scores may be equal, and then rounding chooses among them.
        exact = is_edge and expected[key].dtype.kind != "f"
        scale = least_scale(usual, int(key.rpartition("_")[2]), case=case) if is_edge else 0.0
        deviation = 0.0 if exact else relative_deviation(results[key], expected[key], least_scale=scale)
        if case in SPECIAL and not mismatch:
            found = compare_special(results[key], expected[key])
            # Where inputs are not finite, only that is compared: Winograd's sums are shared among neighbours, and where
            # a network turns NaN into a number, these differ.
            deviation = 0.0 if case in NOT_FINITE else found.deviation
            before = special.get(case, Special(0, 0, 0.0))
            special[case] = Special(found.lost + before.lost, found.spread + before.spread, 0.0)
        by_case[case] = max(deviation, by_case.get(case, 0.0))
    worst = max(by_case, key=lambda case: by_case[case])
    return {
        "deviation": by_case[worst],
        "case": worst,
        "deviations": by_case,
        "changes": changes,
        "mismatch": mismatch,
        **({} if mismatch else _finer(results, expected, file, [*usual])),
        "special": {case: asdict(each) for case, each in special.items() if each.lost or each.spread},
    }


_NOTHING: Mapping[str, Any] = {
    "deviation": 0.0,
    "case": "",
    "deviations": {},
    "changes": {},
    "mismatch": "",
    "special": {},
    "mean": 0.0,
    "factor": 0.0,
    "mean_change": None,
    "rounded": {},
    "slice": 0.0,
    "slice_of": "",
    "scaled": 0.0,
    "scaled_of": "",
}
"""A comparison that has found nothing."""


def _finer(
    results: Mapping[str, Array], expected: Mapping[str, Array], file: Mapping[str, Array], keys: Sequence[str]
) -> dict[str, Any]:
    """Compare by the mean, by the common factor of all values, and every slice by its own scale."""
    means = [mean_deviation(results[key], expected[key]) for key in keys]
    factors = [common_factor(results[key], expected[key]) for key in keys]
    mean_changes = [float(file[key]) for key in file if key.startswith(MEAN)]
    worst: dict[str, float | str] = {}
    for name, judge in (("slice", slice_deviation), ("scaled", scaled_deviation)):
        slices = []
        for key in keys:
            index = int(key.rpartition("_")[2])
            share, where = judge(results[key], expected[key], changes_of_slices(file, index))
            slices.append((share, f"{where} of output {index}" if where else ""))
        worst[name], worst[f"{name}_of"] = max(slices, default=(0.0, ""))
    return {
        "mean": max(means, default=0.0),
        "factor": max(factors, default=0.0),
        "mean_change": max(mean_changes, default=None),
        "rounded": {name: float(file[name]) for name in (ROUNDED, ROUNDED_MEAN) if name in file},
        **worst,
    }


def changed_input(executable: Executable, inputs: Mapping[str, Array]) -> str:
    """Return in words which input the network has changed; empty if none, or if its runtime does not tell."""
    for name, held in executable.held_inputs().items():
        if not np.array_equal(held, inputs[name], equal_nan=held.dtype.kind == "f"):
            return f"the network changes its input `{name}`"
    return ""


def _begin_reference(
    executable: Executable, inputs: CheckInputs, *, cases: Sequence[int | str], outputs: Path, total_s: float
) -> tuple[dict[str, Any], Mapping[str, Array]]:
    """Make the outputs of an artifact the reference; return the comparison with itself, and the outputs."""
    seconds: list[float] = []
    changed: list[str] = []

    def run(arrays: Mapping[str, Array]) -> Sequence[Array]:
        start = time.perf_counter()
        found = executable.run(arrays)
        seconds.append(_run_s(executable, time.perf_counter() - start))
        changed.append(changed_input(executable, arrays))
        return found

    def moved(seed: int) -> RunNetwork | None:
        network = executable.moved(seed) if isinstance(executable, SourceNetwork) else None
        return None if network is None else network.run

    made = make_reference(run, inputs, cases=cases, total_s=total_s, moved=moved)
    done = cases[: len(made.run_s)]
    common = {**_NOTHING, "run_s": min(seconds), "cases": len(done), "is_cut": False, "leads": None}
    lost = next((key for key in made.outputs if _is_usual(key) and _is_lost(made.outputs[key])), "")
    if lost:
        case, _, index = lost.rpartition("_")
        place = f"on {case}" if is_sample(case) else f"on inputs of seed {case}"
        reason = f"output {index} has no finite value {place}, so no other output can be compared"
        told = case if is_sample(case) else int(case)
        return {**common, "case": told, "mismatch": reason, "deviation": math.inf}, {}
    if mismatch := next(filter(None, changed), ""):
        return {**common, "mismatch": mismatch, "deviation": math.inf}, {}
    made.save(outputs)
    changes = {case: float(made.changes[f"{CHANGE}{case}"]) for case in EDGES if f"{CHANGE}{case}" in made.changes}
    run_cases = [case for case in done if f"{case}_0" in made.outputs]
    deviations = {str(case): 0.0 for case in run_cases}
    leads = _leads(made.outputs, made.outputs, cases=run_cases)
    return {**common, "leads": leads, "deviations": deviations, "changes": changes}, made.outputs


def _is_usual(key: str) -> bool:
    return key.rpartition("_")[0] not in EDGES


def _run_s(executable: Executable, seconds: float) -> float:
    # By weights where there are several cases, as the latencies that a limit comes from.
    return float(executable.run_s) if isinstance(executable, Mixture) else seconds


def _run_cases(
    executable: Executable,
    inputs: CheckInputs,
    *,
    cases: Sequence[int | str],
    longest_s: float,
    total_s: float,
) -> tuple[dict[str, Array], Sequence[float], str]:
    """Return the outputs by case and index, the seconds of each case that ran, and which input was changed."""
    results: dict[str, Array] = {}
    seconds: list[float] = []
    changed = ""
    for case in cases:
        arrays = case_inputs(inputs, case)
        start = time.perf_counter()
        outputs = executable.run(arrays)
        seconds.append(_run_s(executable, time.perf_counter() - start))
        results |= {f"{case}_{index}": array for index, array in enumerate(outputs)}
        changed = changed or changed_input(executable, arrays)
        # Not the last one: other work may stall a quick run.
        if min(seconds) > longest_s or sum(seconds) > total_s:
            break
    return results, seconds, changed


def _is_lost(output: Array) -> bool:
    """Return whether an output has floats, and none of them is finite: it would agree with any other such output."""
    return output.dtype.kind == "f" and output.size > 0 and not np.isfinite(output).any()


def _mismatch(actual: Array, expected: Array) -> str:
    if (actual.shape, actual.dtype) == (expected.shape, expected.dtype):
        return ""
    return f"an output is {actual.dtype}{list(actual.shape)}, the reference's is {expected.dtype}{list(expected.shape)}"


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
    """Summarize outputs: shape, dtype, magnitudes (largest, mean, by slice), SHA-256, evenly spaced values of each."""
    return [
        {
            "shape": list(output.shape),
            "dtype": str(output.dtype),
            "max_abs": float(np.abs(output[np.isfinite(output)].astype("float64")).max(initial=0.0)),
            "mean_abs": _mean_magnitude(output),
            "slices": _digest_slices(output),
            "sha256": hashlib.sha256(output.tobytes()).hexdigest(),
            "values": _spaced_values(output),
        }
        for output in outputs
    ]


def _mean_magnitude(output: Array) -> float:
    finite = output[np.isfinite(output)]
    return float(np.abs(finite.astype("float64")).mean()) if finite.size else 0.0


def _digest_slices(output: Array) -> dict[str, list[float]]:
    """Return the largest magnitude of every slice by axis, of axes with a moderate number of slices."""
    axes = [axis for axis in slice_axes(output) if output.shape[axis] <= DIGEST_SLICES]
    return {str(axis): [float(value) for value in slice_magnitudes(output, axis)] for axis in axes}


def _spaced_values(output: Array) -> list[float | int | str]:
    """Return evenly spaced values of the flattened array, its first and last among them."""
    last, count = output.size - 1, min(output.size, DIGEST_VALUES)
    values = [output.flat[index * last // max(count - 1, 1)].item() for index in range(count)]
    # JSON has no number for nan and infinity, so they are text.
    return [value if math.isfinite(value) else str(value) for value in values]
