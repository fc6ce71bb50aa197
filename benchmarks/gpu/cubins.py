"""The CUDA device code in a built network, read from its ELF headers."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x7fELF"
EM_CUDA = 190
"""Machine of device code (``elf.h``)."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT_BYTES = 56
_NO_BITS = 8
"""Type of a section that takes no room in the file."""


@dataclass(frozen=True)
class Cubin:
    """Device code for one architecture.

    Attributes:
        arch: Architecture, as in ``sm_80``.
        bytes: Size of the whole ELF file.
        code_bytes: Size of the instructions of all kernels.
        kernels: Names of the kernels.
        digest: SHA-256 of the instructions, by the kernels' names.
    """

    arch: str
    bytes: int
    code_bytes: int
    kernels: tuple[str, ...]
    digest: str


def read_cubins(file: Path) -> list[Cubin]:
    """Return all device code in a library; the host's own code is not among it."""
    content = file.read_bytes()
    return [cubin for start in _starts(content) if (cubin := _read(content[start:])) is not None]


def _starts(content: bytes) -> Iterator[int]:
    place = content.find(MAGIC)
    while place >= 0:
        yield place
        place = content.find(MAGIC, place + 1)


def _read(content: bytes) -> Cubin | None:
    """Return the device code at the beginning of ``content``, or ``None`` if it is other code."""
    if len(content) < _HEADER.size:
        return None
    _, _, machine, *_, segments_at, sections_at, flags, _, _, segments, _, number, names_at = _HEADER.unpack_from(
        content
    )
    if machine != EM_CUDA:
        return None
    sections = [_SECTION.unpack_from(content, sections_at + place * _SECTION.size) for place in range(number)]
    names = sections[names_at][4]
    ends = [section[4] + section[5] for section in sections if section[1] != _NO_BITS]
    ends += [segments_at + segments * _SEGMENT_BYTES, sections_at + number * _SECTION.size]
    code = {
        name: content[section[4] : section[4] + section[5]]
        for section in sections
        if (name := _name(content, names + section[0])).startswith(".text.")
    }
    # CUDA 13 writes the architecture into the second byte of the flags, earlier versions into the first.
    arch = flags >> 8 & 0xFF or flags & 0xFF
    kernels = tuple(sorted(name.removeprefix(".text.") for name in code))
    digest = hashlib.sha256(b"".join(name.encode() + code[name] for name in sorted(code))).hexdigest()
    return Cubin(f"sm_{arch}", max(ends), sum(map(len, code.values())), kernels, digest)


def _name(content: bytes, place: int) -> str:
    return content[place : content.index(b"\0", place)].decode(errors="replace")
