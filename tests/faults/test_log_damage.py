"""Damage inside a log costs the damaged lines and nothing else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from passsearch.store import Log

FACTS = 6


def flip_a_bit(data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines[2] = lines[2][:-3] + bytes([lines[2][-3] ^ 1]) + lines[2][-2:]
    return b"\n".join(lines)


def insert_garbage(data: bytes) -> bytes:
    return data.replace(b"\n", b"\n\xff\r\x00 not a fact\n", 1)


def tear(data: bytes) -> bytes:
    return data[:-4]


@pytest.mark.parametrize(
    ("damage", "lost"),
    [
        (flip_a_bit, {"2"}),
        (insert_garbage, set()),
        (tear, {"5"}),
        (lambda data: data.replace(b"\n", b"\r\n"), set()),
        (lambda data: b"\xef\xbb\xbf" + data, set()),
    ],
    ids=["flipped bit", "garbage", "torn tail", "CRLF", "byte-order mark"],
)
def test_only_damaged_lines_are_lost(
    damage: Callable[[bytes], bytes], lost: set[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "log"
    with Log(path) as log:
        for number in range(FACTS):
            log.record("edge", str(number), fact={"state": number})
    damaged = damage(path.read_bytes())
    path.write_bytes(damaged)
    with Log(path) as log:
        assert {str(number) for number in range(FACTS) if log.recall("edge", str(number)) is None} == lost
        log.record("edge", "new", fact={})
    with Log(path) as log:
        assert log.recall("edge", "new") == {} and log.recall("edge", "4") == {"state": 4}
    if lost:
        copy = path.with_name("log.damaged")
        assert copy.read_bytes() == damaged and str(copy) in caplog.text
