"""An append-only log of facts: every fact is on disk, with a checksum, before it is used."""

import codecs
import json
import logging
import math
import os
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from passsearch.core import NOTICE_LOG, parse_json

Fact: TypeAlias = Mapping[str, Any]

_log = logging.getLogger(__name__)
_notices = logging.getLogger(NOTICE_LOG)


class Log:
    """Facts by kind and key; a run that is started again reads them and continues where it stopped.

    A line of the file is ``crc32 JSON``. An incomplete last line is what remains when the process or the machine dies
    in a write; it moves to a file of its own. Any other line with a wrong checksum was damaged later; it stays where
    it is and is left out. The user is told of both.

    Attributes:
        latest: The newest fact.
        path: The file.
    """

    def __init__(self, path: Path, *, writable: bool = True, is_further: bool = False) -> None:
        """Read the facts in the file.

        Args:
            path: The file; it is made if it is missing and the log is writable.
            writable: False to leave the file as it is; new facts are then forgotten when this object is closed.
            is_further: True for further measurements in the log of a search. Their time is not the run's.
        """
        self.latest: Fact = {}
        self.path = path
        self._facts: dict[tuple[str, str], Fact] = {}
        self._written_s: dict[tuple[str, str], float] = {}
        self._further: set[tuple[str, str]] = set()
        self._elapsed_s: dict[int, float] = {}  # duration of every start of the run, by its number
        self._read()
        self._start_number = max(self._elapsed_s, default=-1) + 1
        self._begin_s = time.monotonic()
        self._last_s = max(self._written_s.values(), default=0.0)  # when the last fact of earlier starts was written
        self._reached_s = 0.0  # when the latest of the recalled facts was written
        self._reached_at = self._begin_s  # when it was recalled, on the monotonic clock
        self._is_running = not self._facts
        self._has_retried = False
        self._is_further = is_further
        self._file = path.open("ab") if writable else None
        if self._file is not None:
            self._cut_end()

    def charge(self, seconds: float) -> None:
        """Charge time to this start that passed before the log was opened."""
        self._begin_s -= seconds

    @property
    def writable(self) -> bool:
        """True if facts are written to the file, False if they last only as long as this object."""
        return self._file is not None

    def recall(self, kind: str, key: str) -> Fact | None:
        """Return a fact, ``None`` if the log does not have it."""
        written_s = self._written_s.get((kind, key), 0.0)
        if written_s > self.clock_s:
            self._reached_s, self._reached_at, self._is_running = written_s, time.monotonic(), False
        return self._facts.get((kind, key))

    def record(self, kind: str, key: str, *, fact: Fact, durable: bool = True) -> Fact:
        """Write a fact and return it.

        Args:
            kind: The kind of the fact.
            key: The key of the fact among those of its kind.
            fact: The fact.
            durable: Wait until the disk has it. False is for facts that the disk has already in another file.
        """
        if not self._is_running:
            self._has_retried |= (kind, key) in self._facts
            self._is_running = True
        elapsed_s, clock_s = round(self.start_clock_s, 4), self.clock_s
        times: dict[str, Any] = {"elapsed_s": elapsed_s, "clock_s": round(clock_s, 4)}
        if self._is_further:
            # A search finds the fact when it begins.
            times = {"elapsed_s": 0.0, "clock_s": 0.0, "guest": True}
        body = json.dumps({"kind": kind, "key": key, "start": self._start_number, **times, "fact": fact}).encode()
        if self._file is not None:
            self._file.write(b"%08x %s\n" % (zlib.crc32(body), body))
            self._file.flush()
            # `flush` only reaches the operating system; after a power cut the fact would be gone without `fsync`.
            if durable:
                os.fsync(self._file.fileno())
        self._elapsed_s[self._start_number] = elapsed_s
        self._store(kind, key, fact=fact, written_s=clock_s, is_further=self._is_further)
        return fact

    @property
    def size_bytes(self) -> int:
        """Size of the file; 0 for a log that is not written."""
        return 0 if self._file is None else os.fstat(self._file.fileno()).st_size

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of the facts."""
        return frozenset(kind for kind, _ in self._facts)

    @property
    def seconds(self) -> float:
        """Wall time of all starts of this run, without the pauses between them."""
        return self.earlier_s + self.start_clock_s

    @property
    def earlier_s(self) -> float:
        """Wall time of the starts of this run before this one."""
        return sum(elapsed for number, elapsed in self._elapsed_s.items() if number != self._start_number)

    @property
    def start_clock_s(self) -> float:
        """Wall time of this start of the run."""
        return time.monotonic() - self._begin_s

    def peek(self, kind: str, key: str) -> Fact | None:
        """Return a fact, ``None`` if the log does not have it; the clock stays as it is."""
        return self._facts.get((kind, key))

    def of_kind(self, kind: str) -> dict[str, Fact]:
        """Return the facts of one kind by key; the clock stays as it is."""
        return {key: fact for (each, key), fact in self._facts.items() if each == kind}

    def is_of_further_measurement(self, kind: str, key: str) -> bool:
        """Return whether a further measurement wrote this fact, and the run itself did not."""
        return (kind, key) in self._further

    def has_result(self, kind: str, key: str) -> bool:
        """Return whether the log has this fact, and it is no failure; the clock stays as it is."""
        fact = self.peek(kind, key)
        return fact is not None and "failure" not in fact

    @property
    def times(self) -> Mapping[tuple[str, str], float]:
        """Time at which every fact was written, by kind and key, on the clock of ``clock_s``.

        It is 0 for those of further measurements.
        """
        return self._written_s

    @property
    def clock_s(self) -> float:
        """Time that the search has reached.

        It equals ``seconds``, except while a continued run still reads facts of earlier starts: then it is the time at
        which the latest one it read was written. A continued run therefore stops at the same trial for the same time
        limit.
        """
        if not self._is_running:
            return self._reached_s
        # A fact that is made again, such as an accident, is no end of the reading: later facts are read after it. With
        # the time of all earlier starts the run would end there, and lose what these starts had found.
        if self._has_retried and self._reached_s < self._last_s:
            return self._reached_s + time.monotonic() - self._reached_at
        return self.seconds

    def stop_writing(self) -> None:
        """Keep new facts in memory only from now on, as on a disk that is full."""
        # Closing writes what is left of the last line, which the disk has no room for.
        with suppress(OSError):
            self.close()
        self._file = None

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, kind: str, key: str, *, fact: Fact, written_s: float, is_further: bool) -> None:
        self._facts[kind, key] = fact
        self._written_s[kind, key] = written_s
        if is_further:
            self._further.add((kind, key))
        else:
            self._further.discard((kind, key))
            self.latest = fact

    def _read(self) -> None:
        """Read all lines that are complete and whole."""
        if not self.path.exists():
            return
        # Editors put a byte order mark before the first line.
        lines = self.path.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
        damaged = []
        for number, line in enumerate(lines[:-1], start=1):
            entry = _parse_line(line)
            if entry is None:
                damaged.append(number)
                continue
            # The last line of a start overwrites the earlier ones, so this becomes the duration of the start.
            self._elapsed_s[entry["start"]] = entry["elapsed_s"]
            # Earlier versions wrote no `clock_s`.
            written_s = entry.get("clock_s", sum(self._elapsed_s.values()))
            is_further = bool(entry.get("guest"))
            self._store(entry["kind"], entry["key"], fact=entry["fact"], written_s=written_s, is_further=is_further)
        if damaged:
            _notices.warning(
                "%s is damaged: left out %d of %d lines, the first of which is line %d; what they said is done again",
                self.path,
                len(damaged),
                len(lines) - 1,
                damaged[0],
            )
        _log.debug("read %d facts from %s", len(self._facts), self.path)

    def _cut_end(self) -> None:
        """Move an incomplete last line, to which the next fact would be appended, to a file of its own."""
        assert self._file is not None
        content = self.path.read_bytes()
        *_, end = content.rpartition(b"\n")
        if end:
            rest = self.path.with_name(f"{self.path.name}.damaged")
            with rest.open("ab") as file:
                file.write(end + b"\n")
            _notices.warning(
                "%s ends in an incomplete line: cut off %d bytes, which are in %s", self.path, len(end), rest
            )
            self._file.truncate(len(content) - len(end))


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, ``None`` if the line is damaged."""
    # Editors on other systems end lines in a carriage return, which is no part of the entry.
    checksum, _, body = line.removesuffix(b"\r").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    # A right checksum says that the line is as it was written, not that this program wrote it.
    with suppress(ValueError):
        entry = parse_json(body)
        if _is_entry(entry):
            return dict(entry)
    return None


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict):
        return False
    texts, start = (entry.get("kind"), entry.get("key")), entry.get("start")
    times = entry.get("elapsed_s"), entry.get("clock_s", 0.0)
    are_times = all(isinstance(each, int | float) and 0 <= each < math.inf for each in times)
    is_start = isinstance(start, int) and start >= 0
    return (
        all(isinstance(text, str) for text in texts) and is_start and are_times and isinstance(entry.get("fact"), dict)
    )
