"""Zip archives, read as far as they declare sizes that their files can mean."""

import json
import re
import stat
import struct
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, TypeAlias

Archive: TypeAlias = Path | BinaryIO
"""A file, or an open one; it is read from its beginning."""

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


def check_archive(path: Archive, entries: str, *, spare_bytes: int = SPARE_BYTES) -> Iterator[str]:
    """Yield, in words, what makes an archive unfit to be read; nothing for one of the kind that frameworks write.

    Args:
        path: The archive.
        entries: Regular expression of the names that its entries may have.
        spare_bytes: What it may hold beyond ``MOST_TIMES`` its own size.

    Raises:
        ValueError, zipfile.BadZipFile, NotImplementedError: It is no archive, or none that every reader takes alike.
    """
    size = _check_directory(path)
    limit = MOST_TIMES * size + spare_bytes
    with zipfile.ZipFile(path) as archive:
        found = archive.infolist()
        if len(found) > MOST_ENTRIES:
            yield f"{len(found):,} entries in an archive (at most {MOST_ENTRIES:,})"
            return
        total = sum(entry.file_size for entry in found)
        if total > limit:
            yield f"an archive of {total:,} bytes in a file of {size:,}"
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


def _check_directory(path: Archive) -> int:
    """Return the bytes of an archive.

    Raises:
        zipfile.BadZipFile: It does not begin with an entry, so may be a file of another kind too, or its directory does
            not stand right before its end: readers differ in where they look.
    """
    with path.open("rb") if isinstance(path, Path) else nullcontext(path) as file:
        file.seek(0)
        if file.read(4) != b"PK\x03\x04":
            raise zipfile.BadZipFile("something before the first entry")
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
    return size


def archive_names(path: Archive) -> list[str]:
    """Return the names of an archive's entries."""
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def archive_sizes(path: Archive) -> dict[str, int]:
    """Return the bytes of an archive's entries, by name."""
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}


def check_one_root(path: Archive) -> Iterator[str]:
    """Yield that PyTorch may read other entries of an archive than those of a name.

    It takes the folder of the first entry, and looks names up without regard to case.
    """
    names = archive_names(path)
    roots = {name.partition("/")[0] for name in names}
    if len(roots) > 1:
        yield f"the folders {', '.join(f'`{root}`' for root in sorted(roots)[:3])} in one archive"
    if len({name.lower() for name in names}) < len(set(names)):
        yield "entries whose names differ in case only"


def archive_documents(path: Archive) -> Iterator[tuple[str, Any]]:
    """Yield names and contents of the JSON entries of an archive, also of those that another entry hides.

    Raises:
        ValueError: An entry is no JSON, or over ``DOCUMENT_BYTES``.
    """
    for name, content in archive_texts(path, ".json"):
        yield name, json.loads(content)


def archive_texts(path: Archive, ending: str) -> Iterator[tuple[str, bytes]]:
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
