"""Classes are the largest values of rows along the last axis, counted on samples or else on random inputs."""

from pathlib import Path

import numpy as np
import pytest

from passsearch.core import CheckInputs, TensorType
from passsearch.measure.classes import class_leads, compare_classes

TYPES = {"x": TensorType((2, 4), "float32")}


def rows(*classes: int) -> np.ndarray:
    return np.eye(4, dtype="float32")[list(classes)]


def test_rows_with_another_class_are_counted_on_samples_only(tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.array([0, 1, 2, 3]))
    inputs = CheckInputs(TYPES, samples="s.npz", sample_count=2, labels=str(tmp_path / "labels.npy"))
    expected = {"sample0_0": rows(0, 1), "sample1_0": rows(0, 3), "1_0": rows(0, 0)}
    results = {"sample0_0": rows(0, 2), "sample1_0": rows(2, 3), "1_0": rows(1, 1)}
    counts = compare_classes(results, expected, inputs, cases=["sample0", "sample1", 1, "zeros"])
    assert counts == {"rows": 4, "differing": 2, "right": 3, "expected_right": 3}
    random = compare_classes(results, expected, CheckInputs(TYPES), cases=["sample0", 1, "zeros"])
    assert random == {"rows": 2, "differing": 2}


@pytest.mark.parametrize(
    ("labels", "text"), [([0, 1, 2, 4], "a label is 4, and the output has"), ([0, 1], "has 2 rows of 4 classes")]
)
def test_labels_that_do_not_fit_the_output_are_named(labels: list[int], text: str, tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.array(labels))
    inputs = CheckInputs(TYPES, samples="s.npz", sample_count=2, labels=str(tmp_path / "labels.npy"))
    arrays = {"sample0_0": rows(0, 1), "sample1_0": rows(2, 3)}
    counts = compare_classes(arrays, arrays, inputs, cases=["sample0", "sample1"])
    assert counts is not None and text in counts["fault"]


@pytest.mark.parametrize("output", [np.ones((3, 1), "float32"), np.ones((3, 4), "int64"), np.float32(1) * np.ones(())])
def test_other_outputs_have_no_classes(output: np.ndarray) -> None:
    assert compare_classes({"1_0": output}, {"1_0": output}, CheckInputs(TYPES), cases=[1]) is None
    assert class_leads(output) is None


def test_leads_are_shares_of_the_largest_magnitude() -> None:
    leads = class_leads(np.array([[1.0, 4.0, 2.0], [-8.0, 0.0, 0.0]], "float32"))
    assert leads is not None and leads.tolist() == [0.25, 0.0]
