"""Zip archives, read as far as they declare sizes that their files can mean."""

import json
import re
import stat
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

SPARE_BYTES = 64 << 20
"""What an archive may hold beyond ``MOST_TIMES`` its own size."""

MOST_TIMES = 8
"""How many times its own size an archive may hold: frameworks store weights as they are, and texts shrink to an
eighth."""

DOCUMENT_BYTES = 64 << 20
"""Largest text that is read from an archive; Python needs up to thirty times as much memory for its objects."""

MOST_ENTRIES = 100_000

_END = struct.Struct("<4s4H2LH")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_64 = struct.Struct("<4sLQL")


def check_archive(path: Path, entries: str, *, spare_bytes: int = SPARE_BYTES) -> Iterator[str]:
    """Yield, in words, what makes an archive unfit to be read; nothing for one of the kind that frameworks write.

    Args:
        path: The archive.
        entries: Regular expression of the names that its entries may have.
        spare_bytes: What it may hold beyond ``MOST_TIMES`` its own size.

    Raises:
        ValueError, zipfile.BadZipFile, NotImplementedError: It is no archive, or none that every reader takes alike.
    """
    _check_directory(path)
    limit = MOST_TIMES * path.stat().st_size + spare_bytes
    with zipfile.ZipFile(path) as archive:
        found = archive.infolist()
        if len(found) > MOST_ENTRIES:
            yield f"{len(found):,} entries in an archive (at most {MOST_ENTRIES:,})"
            return
        total = sum(entry.file_size for entry in found)
        if total > limit:
            yield f"an archive of {total:,} bytes in a file of {path.stat().st_size:,}"
        seen: set[str] = set()
        for entry in found:
            yield from _check_entry(entry)
            if not re.fullmatch(entries, entry.filename):
                yield f"the entry `{entry.filename}`, which no such file has"
            if entry.filename in seen:
                yield f"two entries `{entry.filename}`"
            seen.add(entry.filename)


def _check_entry(entry: zipfile.ZipInfo) -> Iterator[str]:
    name, place = entry.filename, PurePosixPath(entry.filename)
    if place.is_absolute() or ".." in place.parts or "\\" in name or "\0" in entry.orig_filename:
        yield f"the entry `{name}`, which leaves the archive"
    if entry.flag_bits & 0x1:
        yield f"the encrypted entry `{name}`"
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        yield f"the entry `{name}`, which is compressed by method {entry.compress_type}"
    if stat.S_ISLNK(entry.external_attr >> 16):
        yield f"the link `{name}`"


def _check_directory(path: Path) -> None:
    """Refuse an archive whose directory does not stand right before its end: readers differ in where they look."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _END.size - _LOCATOR_64.size))
        tail = file.read()
        if len(tail) < _END.size:
            raise zipfile.BadZipFile("no end of an archive")
        mark, *_, length, offset, comment = _END.unpack(tail[-_END.size :])
        if mark != b"PK\x05\x06" or comment:
            raise zipfile.BadZipFile("something after the end of the archive")
        end = size - _END.size
        if tail.startswith(b"PK\x06\x07") and len(tail) == _END.size + _LOCATOR_64.size:
            end = _LOCATOR_64.unpack(tail[: _LOCATOR_64.size])[2]
            file.seek(end)
            if end + _END_64.size + _LOCATOR_64.size + _END.size != size:
                raise zipfile.BadZipFile("an end of the archive at another place than its own")
            mark, *_, length, offset = _END_64.unpack(file.read(_END_64.size))
            if mark != b"PK\x06\x06":
                raise zipfile.BadZipFile("no end of a large archive")
        if offset + length != end:
            raise zipfile.BadZipFile("a directory at another place than its own")


def archive_names(path: Path) -> list[str]:
    """Return the names of an archive's entries."""
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def check_one_root(path: Path) -> Iterator[str]:
    """Yield that the entries of an archive are in several folders: readers take the first of them."""
    roots = {name.partition("/")[0] for name in archive_names(path)}
    if len(roots) > 1:
        yield f"the folders {', '.join(f'`{root}`' for root in sorted(roots)[:3])} in one archive"


def archive_documents(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield names and contents of the JSON entries of an archive, also of those that another entry hides.

    Raises:
        ValueError: An entry is no JSON, or over ``DOCUMENT_BYTES``.
    """
    for name, content in archive_texts(path, ".json"):
        yield name, json.loads(content)


def archive_texts(path: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the entries of an archive by the ending of their names.

    Raises:
        ValueError: The entries are over ``DOCUMENT_BYTES`` together.
    """
    left = DOCUMENT_BYTES
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if not entry.filename.lower().endswith(ending):
                continue
            left -= entry.file_size
            if left < 0:
                raise ValueError(f"texts of more than {DOCUMENT_BYTES >> 20} MiB")
            yield entry.filename, archive.read(entry)
