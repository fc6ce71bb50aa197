"""The CUDA device code in a built network, read from its ELF headers."""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"\x7fELF"
EM_CUDA = 190
"""Machine of device code (``elf.h``)."""

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT_BYTES, _SYMBOL_BYTES = 56, 24
_NO_BITS = 8
"""Type of a section that takes no room in the file."""


_REGISTERS, _FRAME = 0x2F, 0x11
"""Attributes of kernels in ``.nv.info``: registers of a thread, and bytes of its stack."""
_WITH_VALUES = 4
"""Format of an attribute that a number of bytes follow."""
_MULTIPLY, _MULTIPLY_INTEGERS, _COPY = 0x23C, 0x237, 0xFAE
"""The lower twelve bits of HMMA and IMMA, by which tensor cores multiply from sm_75 to sm_90, and of LDGSTS."""
_INSTRUCTION_BYTES = 16


@dataclass(frozen=True)
class Kernel:
    """What a kernel takes of a multiprocessor.

    Attributes:
        registers: Registers of a thread.
        stack_bytes: Memory of a thread for what registers do not hold: spills, and arrays with open indices.
        shared_bytes: Shared memory of a block, of fixed size.
        tensor_instructions: Instructions for tensor cores in the code.
        integer_instructions: Those of them that multiply integers.
        copies: Instructions in it that copy into shared memory and do not wait (``cp.async``).
    """

    registers: int
    stack_bytes: int
    shared_bytes: int
    tensor_instructions: int
    integer_instructions: int
    copies: int


@dataclass(frozen=True)
class Cubin:
    """Device code for one architecture.

    Attributes:
        arch: Architecture, as in ``sm_80``.
        bytes: Size of the whole ELF file.
        code_bytes: Size of the instructions of all kernels.
        kernels: The kernels by name.
        digest: SHA-256 of the instructions, by the kernels' names.
    """

    arch: str
    bytes: int
    code_bytes: int
    kernels: Mapping[str, Kernel]
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
    kernels = dict(_kernels(content, {_name(content, names + each[0]): each for each in sections}))
    digest = hashlib.sha256(b"".join(name.encode() + code[name] for name in sorted(code))).hexdigest()
    return Cubin(f"sm_{arch}", max(ends), sum(map(len, code.values())), kernels, digest)


def _kernels(content: bytes, sections: Mapping[str, tuple[int, ...]]) -> Iterator[tuple[str, Kernel]]:
    values = _attributes(content, sections)
    for section, (*_, place, size, _, _, _, _) in sorted(sections.items()):
        if section.startswith(".text."):
            name = section.removeprefix(".text.")
            starts = range(place, place + size, _INSTRUCTION_BYTES)
            words = Counter((content[at] | content[at + 1] << 8) & 0xFFF for at in starts)
            shared = sections.get(f".nv.shared.{name}", (0,) * 10)[5]
            registers, stack = (values.get((name, each), 0) for each in (_REGISTERS, _FRAME))
            integers = words[_MULTIPLY_INTEGERS]
            yield name, Kernel(registers, stack, shared, words[_MULTIPLY] + integers, integers, words[_COPY])


def _attributes(content: bytes, sections: Mapping[str, tuple[int, ...]]) -> dict[tuple[str, int], int]:
    """Return the attributes of kernels that are one number, by name of the kernel and attribute."""
    found = {}
    symbols, names = sections[".symtab"][4], sections[".strtab"][4]
    *_, place, size, _, _, _, _ = sections[".nv.info"]
    end = place + size
    while place < end:
        kind, attribute, length = struct.unpack_from("<BBH", content, place)
        place += 4
        if kind == _WITH_VALUES:
            if attribute in (_REGISTERS, _FRAME):
                symbol, value = struct.unpack_from("<II", content, place)
                (name,) = struct.unpack_from("<I", content, symbols + symbol * _SYMBOL_BYTES)
                found[_name(content, names + name), attribute] = value
            place += length
    return found


def _name(content: bytes, place: int) -> str:
    return content[place : content.index(b"\0", place)].decode(errors="replace")
