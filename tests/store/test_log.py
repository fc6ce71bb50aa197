"""Facts survive a process that ends at any point."""

import codecs
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from passsearch.store import Log, open_fact_cache


def test_facts_are_read_by_the_next_process(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.record("edge", "a", fact={"state": "b"})
    log.close()
    with Log(tmp_path / "log") as again:
        assert again.recall("edge", "a") == {"state": "b"}


@pytest.mark.parametrize("damage", [b"deadbeef {", b"\x00\x00\x00", b"00000000 {}"])
def test_an_incomplete_end_is_moved_to_another_file_and_writing_continues(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    first = Log(path)
    first.record("edge", "a", fact={"state": "b"})
    first.close()
    with path.open("ab") as file:
        file.write(damage)
    second = Log(path)
    assert f"cut off {len(damage)} bytes" in caplog.text
    assert (tmp_path / "log.damaged").read_bytes() == damage + b"\n"
    assert second.recall("edge", "a") == {"state": "b"}
    second.record("edge", "c", fact={"state": "d"})
    second.close()
    with Log(path) as third:
        assert third.recall("edge", "c") == {"state": "d"}


def flip_bit(content: bytes) -> bytes:
    """Return the content with another byte in the second line."""
    place = content.index(b"\n") + 30
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


DAMAGES: dict[str, tuple[Callable[[bytes], bytes], set[str]]] = {
    "a flipped bit": (flip_bit, {"b"}),
    "an empty line": (lambda content: content.replace(b"\n", b"\n\n", 1), set()),
    "garbage in the middle": (lambda content: content.replace(b"\n", b"\n\x00\xffgarbage\n", 1), set()),
    "a line twice": (lambda content: content + content.splitlines(keepends=True)[1], set()),
    "ends of lines of another system": (lambda content: content.replace(b"\n", b"\r\n"), set()),
    "a byte order mark": (lambda content: codecs.BOM_UTF8 + content, set()),
}
"""What happens to a log of the facts a, b and c, and the facts that are lost by it."""


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_costs_the_facts_of_the_damaged_lines_only(tmp_path: Path, name: str) -> None:
    damage, lost = DAMAGES[name]
    path = tmp_path / "log"
    with Log(path) as log:
        for key in "abc":
            log.record("edge", key, fact={"state": key})
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with Log(path) as log:
        assert {key for key in "abc" if log.recall("edge", key) is None} == lost
        log.record("edge", "d", fact={"state": "d"})
    assert path.read_bytes().startswith(damaged), "nothing is deleted"
    with Log(path) as log:
        assert log.recall("edge", "d") == {"state": "d"}


def test_the_user_is_told_of_damaged_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "log"
    with Log(path) as log:
        for key in "abc":
            log.record("edge", key, fact={})
    path.write_bytes(flip_bit(path.read_bytes()))
    with Log(path, writable=False):
        assert "left out 1 of 3 lines, the first of which is line 2" in caplog.text


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


def test_time_before_the_log_was_opened_can_be_charged_to_the_run(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.charge(20.0)
        assert 20.0 <= log.clock_s <= log.seconds < 21.0
        log.record("edge", "a", fact={})
    with Log(tmp_path / "log") as again:
        assert again.seconds >= 20.0


def test_the_time_of_further_measurements_is_not_the_runs(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as search:
        search.record("edge", "a", fact={"spent": {"apply": 1.0}})
    with Log(tmp_path / "log", is_further=True) as further:
        time.sleep(0.3)
        further.record("edge", "b", fact={"spent": {"apply": 9.0}})
    with Log(tmp_path / "log") as search:
        assert search.recall("edge", "b") and search.clock_s < 0.2
        assert search.latest == {"spent": {"apply": 1.0}}
        assert [search.is_of_further_measurement("edge", key) for key in "ab"] == [False, True]
        search.record("edge", "c", fact={})
        assert search.seconds < 0.2 and search.clock_s < 0.2


def test_the_clock_of_a_continued_run_goes_with_the_facts_it_reads_and_never_backwards(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes((Path(__file__).parent / "data" / "log.jsonl").read_bytes())
    with Log(tmp_path / "log") as log:
        assert [log.recall("edge", key) and log.clock_s for key in ("a", "c", "a")] == [1.5, 4.5, 4.5]
        log.record("edge", "d", fact={})
        log.recall("edge", "a")
        assert log.clock_s >= 4.5


def test_a_fact_that_a_continued_run_makes_again_takes_no_time_from_what_earlier_starts_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes((Path(__file__).parent / "data" / "log.jsonl").read_bytes())  # "a" at 1.5 s, "c" at 4.5 s
    with Log(path) as log:
        log.recall("edge", "a")  # an accident, which is made again and leads to something new
        log.record("edge", "a", fact={"state": "again"})
        log.record("edge", "b", fact={"state": "new"})
        assert 1.5 <= log.clock_s < 2.5
        assert log.recall("edge", "c") and log.clock_s == 4.5
        log.record("edge", "d", fact={})
        assert log.clock_s == pytest.approx(log.seconds, abs=0.1), "the earlier facts are behind it"
    with Log(path) as log:
        reached = [log.recall("edge", key) and log.clock_s for key in "abc"]
        assert reached == [pytest.approx(1.5, abs=1.0), pytest.approx(1.5, abs=1.0), 4.5]


def test_the_clock_of_a_continued_run_is_its_wall_time_once_it_finds_something_new(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes((Path(__file__).parent / "data" / "log.jsonl").read_bytes())
    with Log(tmp_path / "log") as log:
        log.recall("edge", "a")
        log.record("edge", "b", fact={})
        assert log.clock_s == pytest.approx(log.seconds, abs=0.1)


def test_the_clock_of_a_run_is_not_set_back_by_a_fact_it_has_just_written(tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        log.record("edge", "a", fact={})
        time.sleep(0.05)
        log.recall("edge", "a")
        assert log.clock_s >= 0.05


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
