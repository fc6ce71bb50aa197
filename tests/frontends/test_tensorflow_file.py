"""Tests of TensorFlow and TFLite files."""

import pytest

from passsearch.core import TensorType
from passsearch.frontends import resolve

INPUTS = {"image": TensorType((2, 8, 8, 3), "float32")}


@pytest.fixture
def saved_model(tmp_path):
    folder = tmp_path / "classifier.v2"
    (folder / "variables").mkdir(parents=True)
    (folder / "assets").mkdir()
    (folder / "saved_model.pb").write_bytes(b"\x08\x01")
    (folder / "variables" / "variables.index").write_bytes(b"weights")
    return folder


TFLITE = b"\x10\0\0\0TFL3\x08\0\x04\0\0\0\0\0\x08\0\0\0"
"""A file with an empty table for the model."""


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [("net.v2.pb", "tensorflow", b"\x12\0"), ("net.v2.tflite", "tflite", TFLITE)],
)
def test_a_file_goes_to_the_importer_with_the_options_of_the_user(tmp_path, name, kind, content):
    (tmp_path / name).write_bytes(content)
    file = resolve(tmp_path / name, inputs=INPUTS, batch=2, folder=tmp_path / "kept")
    assert (file.path, file.format, file.name) == (tmp_path / name, kind, "net.v2")
    assert file.to_request() == {
        "path": str(tmp_path / name),
        "format": kind,
        "inputs": {"image": [[2, 8, 8, 3], "float32"]},
        "batch": 2,
    }
    assert not (tmp_path / "kept").exists()


def test_a_saved_model_is_its_folder(tmp_path, saved_model):
    by_folder = resolve(saved_model, folder=tmp_path)
    by_file = resolve(saved_model / "saved_model.pb", folder=tmp_path)
    assert (by_folder.path, by_folder.format, by_folder.name) == (saved_model, "tensorflow", "classifier.v2")
    assert (by_file.path, by_file.sha256, by_file.name) == (by_folder.path, by_folder.sha256, by_folder.name)


def test_the_digest_includes_every_file_of_a_saved_model(tmp_path, saved_model):
    before = resolve(saved_model, folder=tmp_path).sha256
    assert resolve(saved_model, folder=tmp_path).sha256 == before
    (saved_model / "variables" / "variables.index").write_bytes(b"other weights")
    assert resolve(saved_model, folder=tmp_path).sha256 != before
