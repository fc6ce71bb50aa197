"""A name from a file stays in its folder, whatever it is."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passsearch.core import safe_file_name

WAYS_OUT = ["../../x", "/etc/passwd", "..", ".", "", "~", "a/b", "a\\b", "x\0y", "\ud800", ".hidden", "a" * 5000, "\n"]


@pytest.mark.parametrize("text", WAYS_OUT)
def test_no_name_leaves_its_folder(tmp_path: Path, text: str) -> None:
    path = tmp_path / f"{safe_file_name(text)}-0123abcd.jsonl"
    assert Path(os.path.normpath(path)).parent == tmp_path
    path.touch()


def test_a_plain_name_stays_as_it_is() -> None:
    assert safe_file_name("resnet18-b1.onnx") == "resnet18-b1.onnx"


@settings(deadline=None)
@given(st.text(), st.text())
def test_different_texts_have_different_plain_names(first: str, second: str) -> None:
    names = [safe_file_name(first), safe_file_name(second)]
    assert all(name.isascii() and not set("/\\\0") & set(name) and name.strip(".") for name in names)
    assert (names[0] == names[1]) == (first == second)
