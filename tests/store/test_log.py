"""What was written is there after any kind of end."""

import time
from pathlib import Path

import pytest

from passsearch.errors import UserError
from passsearch.store import Log, RunFolder, read_result


def test_facts_outlive_the_process(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.record("edge", "a", fact={"state": "b"})
    log.close()
    with Log(tmp_path / "log") as again:
        assert again.recall("edge", "a") == {"state": "b"}


@pytest.mark.parametrize("damage", [b"deadbeef {", b"00000000 {}\n", b"\x00\x00\x00"])
def test_a_torn_line_ends_the_readable_part_and_writing_goes_on(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "log"
    first = Log(path)
    first.record("edge", "a", fact={"state": "b"})
    first.close()
    with path.open("ab") as file:
        file.write(damage)
    second = Log(path)
    assert second.recall("edge", "a") == {"state": "b"}
    second.record("edge", "c", fact={"state": "d"})
    second.close()
    with Log(path) as third:
        assert third.recall("edge", "c") == {"state": "d"}


def test_a_flipped_bit_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(path)
    log.record("edge", "a", fact={"state": "b"})
    log.close()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    with Log(path) as again:
        assert again.recall("edge", "a") is None


def test_seconds_add_up_over_sessions(tmp_path: Path) -> None:
    first = Log(tmp_path / "log")
    first.record("edge", "a", fact={})
    time.sleep(0.05)
    first.record("edge", "b", fact={})
    first.close()
    with Log(tmp_path / "log") as second:
        assert 0.05 <= second.seconds < 1


def test_a_run_goes_on_only_with_its_own_settings(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run", {"seed": 1, "trials": 5}).close()
    RunFolder(tmp_path / "run", {"seed": 1, "trials": 9}).close()
    with pytest.raises(UserError, match="seed = `1`, now it is `2`"):
        RunFolder(tmp_path / "run", {"seed": 2, "trials": 9})


def test_two_processes_cannot_share_a_run(tmp_path: Path) -> None:
    holder = RunFolder(tmp_path / "run", {})
    with pytest.raises(UserError, match="in use"):
        RunFolder(tmp_path / "run", {})
    holder.close()


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UserError, match="neither empty nor a run folder"):
        RunFolder(tmp_path, {})


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "No result"), ("{", "not JSON"), ("{}", "schema"), ('{"schema": "passsearch/1"}', "lacks `model`")],
)
def test_unreadable_results_say_why(tmp_path: Path, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / "result.json").write_text(content)
    with pytest.raises(UserError, match=words):
        read_result(tmp_path)
