"""The classes that outputs give: the largest value of each row, along the last axis of the first output. numpy only."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from passsearch.core import CheckInputs
from passsearch.dialects.case_inputs import SAMPLE, is_sample
from passsearch.dialects.contract import Array
from passsearch.dialects.sample_labels import read_labels, rows_of_sample


def class_cases(inputs: CheckInputs, cases: Sequence[int | str]) -> list[int | str]:
    """Return the cases whose classes count: the samples of the user, or without any the random inputs."""
    return [case for case in cases if (is_sample(case) if inputs.sample_count else isinstance(case, int))]


def compare_classes(
    results: Mapping[str, Array], expected: Mapping[str, Array], inputs: CheckInputs, *, cases: Sequence[int | str]
) -> dict[str, Any] | None:
    """Count the rows of the first output that have another class than the reference's.

    Args:
        results: Outputs by case and index, ``<case>_<index>``.
        expected: Those of the reference.
        inputs: The network's inputs, with the labels of its samples.
        cases: The cases that ran.

    Returns:
        ``rows``, ``differing`` and, with labels, how many rows are ``right`` and were right in the reference
        (``expected_right``); ``None`` where the first output has no classes, and ``fault`` where labels do not fit.
    """
    labels = read_labels(Path(inputs.labels)) if inputs.labels else None
    counts = {"rows": 0, "differing": 0, "right": 0, "expected_right": 0}
    for case in class_cases(inputs, cases):
        actual, right = (_classes(arrays[f"{case}_0"]) for arrays in (results, expected))
        if actual is None or right is None:
            return None
        counts["rows"] += right.size
        counts["differing"] += int((actual != right).sum())
        if labels is not None:
            own = rows_of_sample(labels, int(str(case).removeprefix(SAMPLE)), inputs.sample_count)
            if fault := labels_fault(own, expected[f"{case}_0"]):
                return {"fault": fault}
            counts["right"] += int((actual == own).sum())
            counts["expected_right"] += int((right == own).sum())
    if not counts["rows"]:
        return None
    return counts if labels is not None else {name: counts[name] for name in ("rows", "differing")}


def labels_fault(labels: Array, output: Array) -> str:
    """Return why the labels of a sample are not those of its output's rows; empty if they are."""
    rows, classes = output.size // output.shape[-1], output.shape[-1]
    if labels.size != rows:
        return f"each sample has {rows} rows of {classes} classes, and there are {labels.size} labels for it"
    if labels.max() >= classes:
        return f"a label is {labels.max()}, and the output has the classes 0 to {classes - 1}"
    return ""


def class_leads(output: Array) -> Array | None:
    """Return by how much the first class of each row leads over the second, as a share of the largest magnitude."""
    if _classes(output) is None:
        return None
    rows = output.reshape(-1, output.shape[-1]).astype("float64")
    second, first = np.partition(rows, (-2, -1), axis=1)[:, -2:].T
    scale = float(np.abs(rows).max())
    leads: Array = (first - second) / scale if scale else np.zeros(len(rows))
    return leads


def _classes(output: Array) -> Array | None:
    """Return the class of each row; ``None`` for an output without classes."""
    if output.ndim < 1 or output.shape[-1] < 2 or not output.size or output.dtype.kind != "f":
        return None
    classes: Array = output.reshape(-1, output.shape[-1]).argmax(axis=1)
    return classes
