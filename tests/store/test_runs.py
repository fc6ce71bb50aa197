"""Kept runs are listed with what they found and their size, and old ones are deleted."""

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from passsearch.cli import app
from passsearch.store import RunFolder, delete_runs, stored_runs

RESULT = Path(__file__).parents[1] / "data" / "results" / "resnet_tiny-relax.json"


def make_run(folder: Path, *, age_s: float = 0.0, result: bool = False) -> None:
    run = RunFolder(folder, {})
    run.log.record("samples", "a", fact={})
    run.close()
    if result:
        shutil.copy(RESULT, folder / "result.json")
    moment = time.time() - age_s
    os.utime(folder / "log.jsonl", (moment, moment))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    parent = tmp_path / "runs"
    make_run(parent / "old", age_s=100.0)
    make_run(parent / "new", result=True)
    (parent / "thesis").mkdir()
    (parent / "thesis" / "run.json").write_text("{}")  # of another program
    return parent


def test_runs_are_listed_from_the_last_one(runs: Path) -> None:
    new, old = stored_runs(runs)
    assert (new.folder.name, old.folder.name) == ("new", "old")
    assert new.result is not None and old.result is None
    assert new.bytes > RESULT.stat().st_size and old.age_s >= 100.0


def test_a_damaged_result_does_not_hide_the_others(runs: Path) -> None:
    (runs / "old" / "result.json").write_text("{")
    assert [run.result is None for run in stored_runs(runs)] == [False, True]


def test_old_runs_are_deleted_but_none_in_use_and_no_other_folder(runs: Path) -> None:
    used = RunFolder(runs / "old", {})
    assert delete_runs(runs, older_than_s=50.0) == []
    used.close()
    assert [run.folder.name for run in delete_runs(runs, older_than_s=50.0)] == ["old"]
    assert {folder.name for folder in runs.iterdir()} == {"new", "thesis"}


def test_a_run_that_cannot_be_deleted_stays_and_does_not_keep_the_others(runs: Path) -> None:
    (runs / "new" / ".lock").unlink(missing_ok=True)
    (runs / "new" / ".lock").mkdir()
    assert [run.folder.name for run in delete_runs(runs, older_than_s=0.0)] == ["old"]
    assert (runs / "new").exists()


def test_a_deletion_that_is_cut_off_leaves_no_half_of_a_run(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(folder: Path, **_: object) -> None:
        (folder / "run.json").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupt)
        with pytest.raises(KeyboardInterrupt):
            delete_runs(runs, older_than_s=50.0)
    make_run(runs / "old")  # the same command begins anew
    assert [run.folder.name for run in stored_runs(runs)] == ["old", "new"]
    assert delete_runs(runs, older_than_s=50.0) == []
    assert {folder.name for folder in runs.iterdir()} == {"old", "new", "thesis"}


def test_the_commands_list_and_delete(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["runs", "list", str(runs)]) == app.DONE
    listed = capsys.readouterr().out
    assert "zoo:resnet_tiny" in listed and "not confirmed" in listed and "no result yet" in listed
    assert app.main(["runs", "list", str(runs), "--json"]) == app.DONE
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 2
    assert app.main(["runs", "clean", str(runs), "--older-than", "0"]) == app.DONE
    assert "Deleted 2 runs" in capsys.readouterr().out
    assert app.main(["runs", "list", str(runs)]) == app.DONE
    assert "No run in" in capsys.readouterr().out
