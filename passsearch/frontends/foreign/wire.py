"""Fields of messages in the wire format of Protocol Buffers, read strictly and without their schema."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

Bytes: TypeAlias = "bytes | memoryview"

_VARINT, _DOUBLE, _LENGTH, _FLOAT = 0, 1, 2, 5
_FIXED = {_DOUBLE: 8, _FLOAT: 4}
_MOST_FIELDS = 1 << 29
"""Numbers of fields are below; some readers cut larger ones to 32 bits."""

CUT = ("a field that is longer than its message", "a number that is cut")
"""Faults of a message that ends too early, as that of a file that was not copied to its end."""

_MOST_BYTES = 10
"""Bytes of the longest number, which has 64 bits."""


def read(path: Path) -> memoryview:
    """Return the content of a file, which stays on the disk as far as nobody looks at it."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))  # ValueError for an empty file


def joined(message: Bytes, field: int) -> Bytes:
    """Return a message that may occur several times; readers merge the occurrences."""
    found = list(parts(message, field))
    return found[0] if len(found) == 1 else b"".join(found)


def fields(message: Bytes) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the number and the value of each field: a number, or the content of a text, message or packed list.

    Raises:
        ValueError: A field is cut, has an unknown type, or is written in another way than every serializer writes it.
    """
    view, place = memoryview(message), 0
    while place < len(view):
        tag, place = _number(view, place)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < _MOST_FIELDS:
            raise ValueError(f"a field with the number {number}")
        if kind == _VARINT:
            value, place = _number(view, place)
            yield number, value
            continue
        if kind == _LENGTH:
            size, place = _number(view, place)
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"a field of the type {kind}")
        if size > len(view) - place:
            raise ValueError(CUT[0])
        content = view[place : place + size]
        # Readers take a field of another type than that of their schema for an unknown one.
        yield number, content if kind == _LENGTH else int.from_bytes(content, "little")
        place += size


def _number(view: memoryview, place: int) -> tuple[int, int]:
    """Return a number of variable length, and the place after it."""
    value = 0
    for count in range(_MOST_BYTES):
        if place + count >= len(view):
            raise ValueError(CUT[1])
        byte = view[place + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            # A longer form of a number means the same, but hides it from readers that compare bytes.
            if byte == 0 and count:
                raise ValueError("a number that is longer than it needs to be")
            return value, place + count + 1
    raise ValueError("a number of more than 64 bits")


def parts(message: Bytes, *path: int) -> Iterator[memoryview]:
    """Yield the contents of all fields at a path of field numbers; a field that occurs several times counts each time.

    Raises:
        ValueError: A message is malformed, or a field on the path is a number.
    """
    for number, value in fields(message):
        if number == path[0]:
            if isinstance(value, int):
                raise ValueError(f"a number where field {number} holds a message")
            yield from parts(value, *path[1:]) if len(path) > 1 else (value,)


def texts(message: Bytes, *path: int) -> Iterator[str]:
    """Yield the texts at a path of field numbers.

    Raises:
        ValueError: ``parts`` refuses a message, or a text is not UTF-8.
    """
    for value in parts(message, *path):
        yield str(value, "utf-8")


def text(message: Bytes, field: int) -> str:
    """Return the text of a field, empty without the field.

    Raises:
        ValueError: ``texts`` refuses it, or it occurs several times, of which readers take the last.
    """
    found = list(texts(message, field))
    if len(found) > 1:
        raise ValueError(f"field {field} twice")
    return found[0] if found else ""


def numbers(message: Bytes, field: int) -> Iterator[int]:
    """Yield the integers of a field, one by one or packed.

    Raises:
        ValueError: The message is malformed.
    """
    for number, value in fields(message):
        if number != field:
            continue
        if isinstance(value, int):
            yield value
            continue
        place = 0
        while place < len(value):
            each, place = _number(value, place)
            yield each
