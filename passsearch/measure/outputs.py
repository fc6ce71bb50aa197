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


def verify(
    executable: Executable,
    *,
    types: Mapping[str, TensorType],
    cases: Sequence[int | str],
    outputs: Path,
    reference: Path | None,
) -> dict[str, Any]:
    """Run on the inputs of every case; keep the outputs, and compare them with the reference's if there is one.

    Outputs are kept as ``<case>_<index>`` arrays of one ``.npz``. Answers the largest deviation and its case.
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
        return {"deviation": 0.0, "case": ""}
    with np.load(reference) as expected:
        if set(expected.files) != set(produced):
            return {"deviation": float("inf"), "case": "", "mismatch": "the number of outputs differs"}
        mismatches = [_mismatch(produced[key], expected[key]) for key in produced]
        deviations = {key: difference(produced[key], expected[key]) for key in produced}
    worst = max(deviations, key=lambda key: deviations[key])
    case, _, _ = worst.rpartition("_")
    return {"deviation": deviations[worst], "case": case, "mismatch": next(filter(None, mismatches), "")}


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
