"""An append-only log of facts: every fact is on disk, with a checksum, before it is used."""

import json
import logging
import os
import shutil
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

Fact: TypeAlias = Mapping[str, Any]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_log = logging.getLogger(__name__)


class Log:
    """Facts by kind and key; a run that is started again reads them and continues where it stopped.

    A line of the file is ``crc32 JSON``. A damaged line is skipped and stays in the file. An incomplete last line, as a
    process or machine that dies during a write leaves it, is cut off. A writable log first copies a damaged file, once,
    to a name with the ending ``.damaged``.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        """Read the facts in the file.

        Args:
            path: The file; it is made if it is missing and the log is writable.
            writable: False to leave the file as it is; new facts are then forgotten when this object is closed.
        """
        self.latest: Fact = {}
        self._path = path
        self._facts: dict[tuple[str, str], Fact] = {}
        self._written_s: dict[tuple[str, str], float] = {}
        self._elapsed_s: dict[int, float] = {}  # duration of every start of the run, by its number
        self._recalled_s: float | None = None
        self._skipped = 0
        readable_bytes = self._read()
        self._start_number = max(self._elapsed_s, default=-1) + 1
        self._start = time.monotonic()
        self._file = path.open("ab") if writable else None
        if self._file is not None:
            self._truncate(readable_bytes)

    @property
    def writable(self) -> bool:
        """True if facts are written to the file, False if they last only as long as this object."""
        return self._file is not None

    def recall(self, kind: str, key: str) -> Fact | None:
        """Return a fact, ``None`` if the log does not have it."""
        self._recalled_s = self._written_s.get((kind, key))
        return self._facts.get((kind, key))

    def record(self, kind: str, key: str, *, fact: Fact, durable: bool = True) -> Fact:
        """Write a fact and return it.

        Args:
            kind: The kind of the fact.
            key: The key of the fact among those of its kind.
            fact: The fact.
            durable: Wait until the disk has it. False is for facts that the disk has already in another file.
        """
        elapsed_s = round(time.monotonic() - self._start, 4)
        body = json.dumps(
            {"kind": kind, "key": key, "start": self._start_number, "elapsed_s": elapsed_s, "fact": fact}
        ).encode()
        if self._file is not None:
            self._file.write(b"%08x %s\n" % (zlib.crc32(body), body))
            self._file.flush()
            # `flush` only reaches the operating system; after a power cut the fact would be gone without `fsync`.
            if durable:
                os.fsync(self._file.fileno())
        self._elapsed_s[self._start_number] = elapsed_s
        self._store(kind, key, fact=fact)
        self._recalled_s = None
        return fact

    @property
    def seconds(self) -> float:
        """Wall time of all starts of this run, without the pauses between them."""
        earlier_s = sum(elapsed for number, elapsed in self._elapsed_s.items() if number != self._start_number)
        return earlier_s + time.monotonic() - self._start

    @property
    def times(self) -> Mapping[tuple[str, str], float]:
        """Time at which every fact was written, by kind and key, on the clock of ``seconds``."""
        return self._written_s

    @property
    def clock_s(self) -> float:
        """Time on the clock of ``seconds`` that the search has reached.

        While a continued run only reads facts of earlier starts, this is the time at which the last one it read was
        written. A continued run therefore stops at the same trial for the same time limit.
        """
        return self.seconds if self._recalled_s is None else self._recalled_s

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> "Log":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store(self, kind: str, key: str, *, fact: Fact) -> None:
        self._facts[kind, key] = self.latest = fact
        self._written_s[kind, key] = sum(self._elapsed_s.values())

    def _read(self) -> int:
        """Read every whole line and return the length of the file in bytes without an incomplete last line."""
        if not self._path.exists():
            return 0
        data = self._path.read_bytes()
        mark = BYTE_ORDER_MARK if data.startswith(BYTE_ORDER_MARK) else b""
        readable_bytes = len(mark)
        # Not `splitlines`, which also splits at a lone carriage return: damage may contain one.
        for line in data.removeprefix(mark).split(b"\n")[:-1]:
            entry = _parse_line(line)
            readable_bytes += len(line) + 1
            if entry is None:
                self._skipped += 1
                continue
            # The last line of a start overwrites the earlier ones, so this becomes the duration of the start.
            self._elapsed_s[entry["start"]] = entry["elapsed_s"]
            self._store(entry["kind"], entry["key"], fact=entry["fact"])
        if self._skipped:
            _log.warning("%s: skipped %d damaged lines; their facts are measured again", self._path, self._skipped)
        _log.debug("read %d facts from %s", len(self._facts), self._path)
        return readable_bytes

    def _truncate(self, readable_bytes: int) -> None:
        """Cut off a damaged end; facts appended after it could never be read again."""
        assert self._file is not None
        damaged_bytes = self._path.stat().st_size - readable_bytes
        if self._skipped or damaged_bytes:
            copy = self._path.with_name(self._path.name + ".damaged")
            # Skipped lines stay, so a later start meets them again; the first copy has the most in it.
            if not copy.exists():
                shutil.copyfile(self._path, copy)
                _log.warning("a copy of the damaged file is `%s`", copy)
        if damaged_bytes:
            _log.warning("%s ends within a line; cut off %d bytes", self._path, damaged_bytes)
            self._file.truncate(readable_bytes)


def _parse_line(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line, ``None`` if the line is incomplete or damaged."""
    # An editor may have changed the ends of lines.
    checksum, _, body = line.rstrip(b"\r").partition(b" ")
    if checksum != b"%08x" % zlib.crc32(body):
        return None
    entry: dict[str, Any] = json.loads(body)
    return entry
