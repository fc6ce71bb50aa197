"""Scratch folders exist as long as their process."""

import shutil
from pathlib import Path

import pytest

from passsearch.worker import scratch


def test_a_folder_that_another_process_deleted_before_it_was_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [tmp_path / "first", tmp_path / "second"]

    def make(prefix: str) -> str:
        folder = made.pop(0)
        folder.mkdir()
        if made:  # what `delete_abandoned` of another process does at this moment
            shutil.rmtree(folder)
        return str(folder)

    monkeypatch.setattr(scratch, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(scratch, "mkdtemp", make)
    with scratch.ScratchFolder() as folder:
        assert folder == tmp_path / "second" and folder.is_dir()
