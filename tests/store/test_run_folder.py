"""A run folder is locked, keeps its settings, and says why a result cannot be read."""

import errno
import json
import logging
import os
from contextlib import closing
from pathlib import Path

import pytest

from passsearch.errors import EnvironmentFault, UserError
from passsearch.store import RunFolder, read_result, write_json


def test_a_result_and_its_name_are_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, bool]] = []
    sync = os.fsync

    def record(descriptor: int) -> None:
        sync(descriptor)
        target = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((target.name, (tmp_path / "result.json").exists()))

    monkeypatch.setattr(os, "fsync", record)
    write_json(tmp_path / "result.json", {"a": 1})
    assert synced == [("result.json.partial", False), (tmp_path.name, True)]


def test_a_run_continues_only_with_equal_settings(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "run", {"seed": 1, "trials": 5})
    first.log.record("samples", "a", fact={})
    first.close()
    RunFolder(tmp_path / "run", {"seed": 1, "trials": 9}).close()
    with pytest.raises(UserError, match="seed = `1`, now it is `2`"):
        RunFolder(tmp_path / "run", {"seed": 2, "trials": 9})


def test_further_measurements_in_the_folder_of_a_search_leave_its_settings(tmp_path: Path) -> None:
    settings = {"model": "abc", "objectives": ["throughput"], "additional": [], "trials": 3}
    with closing(RunFolder(tmp_path, settings)) as run:
        run.log.record("fresh", "best-0", fact={})
    with pytest.raises(UserError, match="additional"), closing(RunFolder(tmp_path, {"model": "abc"})):
        pass
    with (
        pytest.raises(UserError, match="another network"),
        closing(RunFolder(tmp_path, {"model": "other"}, is_further=True)),
    ):
        pass
    with closing(RunFolder(tmp_path, {"model": "abc", "plans": "short"}, is_further=True)) as run:
        assert run.log.recall("fresh", "best-0") is not None
        run.log.record("fresh", "other-0", fact={})
    with closing(RunFolder(tmp_path, settings)) as run:
        assert [run.log.is_of_further_measurement("fresh", key) for key in ("best-0", "other-0")] == [False, True]
    assert json.loads((tmp_path / "run.json").read_text()) == settings


def test_a_run_is_not_continued_on_another_device_unless_it_never_said_which(tmp_path: Path) -> None:
    old = RunFolder(tmp_path / "old", {"seed": 1})
    old.log.record("samples", "a", fact={})
    old.close()
    RunFolder(tmp_path / "old", {"seed": 1, "device": {"name": "A100"}}).close()
    with pytest.raises(UserError, match=r"device = .*A100.*, now it is .*H100"):
        RunFolder(tmp_path / "old", {"seed": 1, "device": {"name": "H100"}})


def test_a_run_whose_baseline_failed_does_not_block_the_corrected_command(tmp_path: Path) -> None:
    failed = RunFolder(tmp_path / "run", {"target": "wrong"})
    failed.log.record("load", "", fact={"state": "a"})
    failed.log.record("build", "a", fact={})
    failed.artifacts.mkdir()
    failed.close()
    corrected = RunFolder(tmp_path / "run", {"target": "right"})
    assert corrected.log.kinds == set() and not corrected.artifacts.exists()
    corrected.close()
    RunFolder(tmp_path / "run", {"target": "right"}).close()


@pytest.mark.parametrize("kind", ["samples", "edge"])
def test_a_run_with_results_is_never_discarded(tmp_path: Path, kind: str) -> None:
    run = RunFolder(tmp_path / "run", {"target": "one"})
    run.log.record(kind, "a", fact={})
    run.close()
    with pytest.raises(UserError, match="target = `one`"):
        RunFolder(tmp_path / "run", {"target": "another"})


def test_two_processes_cannot_share_a_run(tmp_path: Path) -> None:
    first = RunFolder(tmp_path / "run", {})
    with pytest.raises(UserError, match="in use"):
        RunFolder(tmp_path / "run", {})
    first.close()


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="neither empty nor a run folder"):
        RunFolder(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"], "no lock is left"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No result"), ("{", "not JSON"), ("{}", "schema"), ('{"schema": "passsearch/1"}', "'model' is a required")],
)
def test_unreadable_results_say_why(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(UserError, match=words):
        read_result(tmp_path)


def test_a_result_that_cannot_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "result.json").mkdir()
    with pytest.raises(EnvironmentFault, match=r"Cannot read `.*result.json`: Is a directory"):
        read_result(tmp_path)


def test_opening_a_run_logs_whether_it_continues(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="passsearch")
    run = RunFolder(tmp_path / "run", {})
    run.log.record("edge", "a", fact={})
    run.close()
    assert caplog.messages[-1].endswith("new run")
    RunFolder(tmp_path / "run", {}).close()
    assert "continuing with 1 facts" in caplog.messages[-1]


def test_the_time_of_a_result_is_that_of_its_last_fact(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run", {})
    run.log.record("edge", "a", fact={})
    run.close()
    os.utime(tmp_path / "run" / "log.jsonl", (1000, 1000))
    again = RunFolder(tmp_path / "run", {})
    assert again.measured_at == 1000
    again.log.record("edge", "b", fact={})
    assert again.measured_at > 1000
    again.close()


def test_a_run_without_facts_leaves_no_folder(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", {}).abandon()
    assert not (tmp_path / "run").exists()
    run = RunFolder(tmp_path / "run", {})
    run.log.record("edge", "a", fact={"state": "b"})
    run.abandon()
    assert (tmp_path / "run" / "log.jsonl").exists()


def test_a_full_disk_while_the_log_closes_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "run", {})

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(run.log, "close", full)
    with pytest.raises(OSError, match="No space"):
        run.close()
    monkeypatch.undo()
    run.log.close()
    RunFolder(tmp_path / "run", {}).close()
