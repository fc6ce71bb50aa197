"""Labels are read as classes of the samples' rows; what are none is refused in a line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from passsearch.dialects.sample_labels import check_labels, read_labels, rows_of_sample
from passsearch.errors import UserError


@pytest.mark.parametrize("name", ["labels.npy", "labels.npz"])
def test_labels_belong_to_the_rows_of_samples(name: str, tmp_path: Path) -> None:
    file, labels = tmp_path / name, np.array([3, 1, 0, 2, 2, 1])
    if file.suffix == ".npy":
        np.save(file, labels)
    else:
        np.savez(file, labels=labels, x=np.ones(3))
    check_labels(file, samples="samples.npz", count=3)
    assert rows_of_sample(read_labels(file), 1, 3).tolist() == [0, 2]


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"y": np.arange(3)}, r"has no array `labels` \(it has `y`\)"),
        ({"labels": np.ones(3, "float32")}, r"has no classes \(float32\[3\]\)"),
        ({"labels": np.array(["cat", "dog"])}, "has no classes"),
        ({"labels": np.empty((0,), "int64")}, r"has no classes \(int64\[0\]\)"),
        ({"labels": np.array([1, -1])}, r"has no classes \(int64\[2\], the least -1\)"),
        (b"no archive", "is no file of labels"),
        (None, "There is no file of labels"),
    ],
)
def test_what_are_no_classes_is_refused_in_a_line(arrays: Any, text: str, tmp_path: Path) -> None:
    file = tmp_path / "labels.npz"
    if isinstance(arrays, bytes):
        file.write_bytes(arrays)
    elif arrays is not None:
        np.savez(file, **arrays)
    with pytest.raises(UserError, match=text) as caught:
        read_labels(file)
    assert "\n" not in str(caught.value) and "numpy.save(FILE, labels)" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "count", "text"),
    [
        ((7,), 3, r"has 7 labels, and `s.npz` has 3 samples"),
        ((4, 3), 6, r"has labels of the shape \[4, 3\], and `s.npz` has 6 samples"),
        ((3,), 0, "are of samples, and there are none; add --samples FILE.npz"),
    ],
)
def test_labels_of_other_samples_are_refused(shape: tuple[int, ...], count: int, text: str, tmp_path: Path) -> None:
    np.save(tmp_path / "labels.npy", np.ones(shape, "int64"))
    with pytest.raises(UserError, match=text):
        check_labels(tmp_path / "labels.npy", samples="s.npz", count=count)
