"""The gate before timing: outputs against the reference, and in a few numbers for a deployment. numpy only."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import TensorType
from passsearch.dialects.contract import Array, Executable, case_inputs

DIGEST_VALUES = 64
LEAST_CLASSES = 10
"""Columns from which on a table is taken for class scores."""


def verify(
    executable: Executable,
    *,
    types: Mapping[str, TensorType],
    cases: Sequence[int | str],
    outputs: Path,
    reference: Path | None,
) -> dict[str, Any]:
    """Run on the inputs of every case; keep the outputs, and compare them with the reference's if there is one.

    Outputs are kept as ``<case>_<index>`` arrays of one ``.npz``. Answers the largest deviation, its case, and the
    leads of classes on random inputs.
    """
    produced = {
        f"{case}_{index}": array
        for case in cases
        for index, array in enumerate(executable.run(case_inputs(types, case)))
    }
    if reference is None:
        unfinished = outputs.with_name("partial-" + outputs.name)
        np.savez(unfinished, **produced)  # type: ignore[arg-type]
        unfinished.replace(outputs)
        return {"deviation": 0.0, "case": "", "mismatch": "", "leads": _leads(produced, produced, cases=cases)}
    with np.load(reference) as expected:
        if set(expected.files) != set(produced):
            return {"deviation": math.inf, "case": "", "mismatch": "the number of outputs differs", "leads": None}
        reference_of = {key: expected[key] for key in produced}
    mismatch = next(filter(None, (_mismatch(produced[key], reference_of[key]) for key in produced)), "")
    deviations = {key: difference(produced[key], reference_of[key]) for key in produced}
    worst = max(deviations, key=lambda key: deviations[key])
    case, _, _ = worst.rpartition("_")
    leads = None if mismatch else _leads(produced, reference_of, cases=cases)
    return {"deviation": deviations[worst], "case": case, "mismatch": mismatch, "leads": leads}


def _mismatch(actual: Array, expected: Array) -> str:
    if (actual.shape, actual.dtype) == (expected.shape, expected.dtype):
        return ""
    return f"an output is {actual.dtype}{list(actual.shape)}, the reference's is {expected.dtype}{list(expected.shape)}"


def difference(actual: Array, expected: Array) -> float:
    """Largest deviation as a share of the largest expected magnitude; infinite where shapes or finiteness differ.

    Integers and booleans must be equal: any deviation is infinite.
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
    scale = max(float(np.abs(expected[finite]).max()), 1e-30)
    return float(np.abs(actual[finite].astype("float64") - expected[finite]).max()) / scale


def _leads(
    produced: Mapping[str, Array], expected: Mapping[str, Array], *, cases: Sequence[int | str]
) -> list[float] | None:
    """By row of the random inputs' class scores: how far the reference's class is ahead of the next.

    As a share of the largest magnitude, negative where the outputs have another class. ``None`` where not exactly one
    output is a table of class scores: floats, ``[batch, classes]``.
    """
    first = (key for key in expected if key.startswith(f"{cases[0]}_"))
    tables = [key.rpartition("_")[2] for key in first if _is_table(expected[key])]
    if len(tables) != 1:
        return None
    keys = [f"{case}_{tables[0]}" for case in cases if isinstance(case, int)]
    return [lead for key in keys for lead in _rows(produced[key], expected[key])]


def _is_table(output: Array) -> bool:
    return np.issubdtype(output.dtype, np.floating) and output.ndim == 2 and output.shape[1] >= LEAST_CLASSES


def _rows(actual: Array, expected: Array) -> list[float]:
    if not np.isfinite(expected).all():
        return []
    second, first = np.partition(expected.astype("float64"), (-2, -1), axis=1)[:, -2:].T
    scale = max(float(np.abs(expected).max()), 1e-30)
    same = actual.argmax(axis=1) == expected.argmax(axis=1)
    return [float(lead) for lead in np.where(same, first - second, second - first) / scale]


def digest(outputs: Sequence[Array]) -> list[dict[str, Any]]:
    """Each output in a few numbers: shape, dtype, largest finite magnitude, SHA-256 and evenly spaced values."""
    return [
        {
            "shape": list(output.shape),
            "dtype": str(output.dtype),
            "max_abs": float(np.abs(output[np.isfinite(output)].astype("float64")).max(initial=0.0)),
            "sha256": hashlib.sha256(output.tobytes()).hexdigest(),
            "values": _spaced(output),
        }
        for output in outputs
    ]


def _spaced(output: Array) -> list[float | int | str]:
    """Values of an array, flattened, from its first to its last; what JSON has no number for is text (``nan``)."""
    last, count = output.size - 1, min(output.size, DIGEST_VALUES)
    values = [output.flat[index * last // max(count - 1, 1)].item() for index in range(count)]
    return [value if math.isfinite(value) else str(value) for value in values]
