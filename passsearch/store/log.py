"""The append-only log of a run: every fact is on disk, checksummed, before it is used."""

import json
import os
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

Fact: TypeAlias = Mapping[str, Any]


class Log:
    """Facts by kind and key. A run that starts again finds what it knew and goes on from there.

    One line is ``crc32 JSON``. A line that was cut off (the process or the machine died while writing) ends the
    readable part: what stands after it is dropped, and writing goes on from there.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        """Read what there is; one that is not writable takes facts in and forgets them at its end."""
        self._path = path
        self._facts: dict[tuple[str, str], Fact] = {}
        self._written_s: dict[tuple[str, str], float] = {}
        self._elapsed: dict[int, float] = {}
        self._recalled_s: float | None = None
        self.latest: Fact = {}
        good = self._read()
        self._start_number = max(self._elapsed, default=-1) + 1
        self._start = time.monotonic()
        self._file = path.open("ab") if writable else None
        if self._file is not None:
            self._file.truncate(good)

    @property
    def writable(self) -> bool:
        """Whether facts go to the file, or last as long as this object only."""
        return self._file is not None

    def recall(self, kind: str, key: str) -> Fact | None:
        """The fact, if it is known."""
        self._recalled_s = self._written_s.get((kind, key))
        return self._facts.get((kind, key))

    def record(self, kind: str, key: str, *, fact: Fact, durable: bool = True) -> Fact:
        """Write a fact and return it once it is on disk; one that is on disk elsewhere need not wait for that."""
        elapsed = round(time.monotonic() - self._start, 4)
        body = json.dumps(
            {"kind": kind, "key": key, "start": self._start_number, "elapsed_s": elapsed, "fact": fact}
        ).encode()
        if self._file is not None:
            self._file.write(b"%08x %s\n" % (zlib.crc32(body), body))
            self._file.flush()
            if durable:
                os.fsync(self._file.fileno())
        self._elapsed[self._start_number] = elapsed
        self._take(kind, key, fact=fact)
        self._recalled_s = None
        return fact

    @property
    def seconds(self) -> float:
        """Wall time spent on this run since it was first started, the pauses between its starts left out."""
        earlier = sum(seconds for number, seconds in self._elapsed.items() if number != self._start_number)
        return earlier + time.monotonic() - self._start

    @property
    def times(self) -> Mapping[tuple[str, str], float]:
        """When each fact, by kind and key, was written, on the clock of ``seconds``."""
        return self._written_s

    @property
    def clock_s(self) -> float:
        """How far into the run its search is: while it recalls what it knows, the time when that was written.

        A run that goes on thus stops at the same place for the same time limit.
        """
        return self.seconds if self._recalled_s is None else self._recalled_s

    def _take(self, kind: str, key: str, *, fact: Fact) -> None:
        self._facts[kind, key] = self.latest = fact
        self._written_s[kind, key] = sum(self._elapsed.values())

    def close(self) -> None:
        """Let the file go."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> int:
        """Take in every whole line; returns the length of the readable part in bytes."""
        if not self._path.exists():
            return 0
        good = 0
        for line in self._path.read_bytes().splitlines(keepends=True):
            entry = _entry(line)
            if entry is None:
                break
            self._elapsed[entry["start"]] = entry["elapsed_s"]
            self._take(entry["kind"], entry["key"], fact=entry["fact"])
            good += len(line)
        return good


def _entry(line: bytes) -> dict[str, Any] | None:
    checksum, _, body = line.rstrip(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != b"%08x" % zlib.crc32(body):
        return None
    entry: dict[str, Any] = json.loads(body)
    return entry
