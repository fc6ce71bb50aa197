"""Facts survive a process that ends at any point."""

import logging
import time
from pathlib import Path

import pytest

from passsearch.store import Log, open_fact_cache


def test_facts_are_read_by_the_next_process(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.record("edge", "a", fact={"state": "b"})
    log.close()
    with Log(tmp_path / "log") as again:
        assert again.recall("edge", "a") == {"state": "b"}


@pytest.mark.parametrize("damage", [b"deadbeef {", b"00000000 {}\n", b"\x00\x00\x00"])
def test_writing_continues_after_a_damaged_line(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    first = Log(path)
    first.record("edge", "a", fact={"state": "b"})
    first.close()
    with path.open("ab") as file:
        file.write(damage)
    second = Log(path)
    whole_line = damage.endswith(b"\n")
    assert ("skipped 1 damaged lines" if whole_line else f"cut off {len(damage)} bytes") in caplog.text
    assert second.recall("edge", "a") == {"state": "b"}
    second.record("edge", "c", fact={"state": "d"})
    second.close()
    with Log(path) as third:
        assert third.recall("edge", "c") == {"state": "d"}


def test_a_flipped_bit_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(path)
    log.record("edge", "a", fact={"state": "b"})
    log.close()
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))
    with Log(path) as again:
        assert again.recall("edge", "a") is None


def test_seconds_are_the_sum_of_all_starts(tmp_path: Path) -> None:
    first = Log(tmp_path / "log")
    first.record("edge", "a", fact={})
    time.sleep(0.05)
    first.record("edge", "b", fact={})
    first.close()
    with Log(tmp_path / "log") as second:
        assert 0.05 <= second.seconds < 1


def test_the_log_format_of_earlier_versions_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes((Path(__file__).parent / "data" / "log.jsonl").read_bytes())
    with Log(tmp_path / "log") as log:
        assert log.recall("edge", "a") == {"state": "b"}
        assert log.times == {("edge", "a"): 1.5, ("edge", "c"): 4.5}
    assert (tmp_path / "log").read_bytes() == (Path(__file__).parent / "data" / "log.jsonl").read_bytes()


def test_a_fact_cache_in_use_is_read_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="passsearch")
    with open_fact_cache(tmp_path / "cache" / "facts.jsonl") as first:
        first.record("edge", "a", fact={"state": "b"})
        with open_fact_cache(tmp_path / "cache" / "facts.jsonl") as second:
            assert not second.writable
            assert second.recall("edge", "a") == {"state": "b"}
            second.record("edge", "c", fact={"state": "d"})
    assert "in use by another run" in caplog.text
    with open_fact_cache(tmp_path / "cache" / "facts.jsonl") as third:
        assert third.writable
        assert third.recall("edge", "c") is None
    assert "opened with 1 facts" in caplog.text
