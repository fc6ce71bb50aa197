"""Tables of FlatBuffers, read with a check of every offset."""

import struct
from typing import Any

LONGEST_TEXT = 1 << 16
"""Longest text that is read; many tables may have the same one."""


class Table:
    """A table in a buffer.

    Attributes:
        buffer: The whole buffer.
        place: Where the table begins.
    """

    def __init__(self, buffer: bytes, place: int) -> None:
        """Read the list of the table's fields.

        Raises:
            ValueError: An offset points out of the buffer.
        """
        self.buffer, self.place = buffer, place
        self._fields = place - _number(buffer, place, "<i")
        self._end = _number(buffer, self._fields, "<H")
        if self._fields < 0 or self._fields + self._end > len(buffer):
            raise ValueError("a table that is cut")

    def number(self, field: int, form: str) -> Any:
        """Return a number, or 0 if the table lacks the field."""
        place = self._find(field)
        return _number(self.buffer, place, form) if place else 0

    def text(self, field: int) -> str:
        """Return a text; empty if the table lacks the field."""
        place = self._find(field)
        if not place:
            return ""
        place = self._follow(place)
        size = _number(self.buffer, place, "<I")
        if size > LONGEST_TEXT or place + 4 + size > len(self.buffer):
            raise ValueError("a text that is cut, or too long")
        return self.buffer[place + 4 : place + 4 + size].decode()

    def tables(self, field: int) -> list["Table"]:
        """Return the tables in a list."""
        place = self._find(field)
        if not place:
            return []
        place = self._follow(place)
        count = _number(self.buffer, place, "<I")
        if place + 4 + 4 * count > len(self.buffer):
            raise ValueError("a list that is cut")
        return [Table(self.buffer, self._follow(place + 4 + 4 * index)) for index in range(count)]

    def _find(self, field: int) -> int:
        """Return the place of a field, or 0."""
        entry = 4 + 2 * field
        offset = _number(self.buffer, self._fields + entry, "<H") if entry < self._end else 0
        return self.place + offset if offset else 0

    def _follow(self, place: int) -> int:
        target = place + int(_number(self.buffer, place, "<I"))
        if not 0 < target < len(self.buffer):
            raise ValueError("an offset out of the file")
        return target


def root(buffer: bytes) -> Table:
    """Return the first table of a buffer.

    Raises:
        ValueError: The buffer is cut.
    """
    return Table(buffer, int(_number(buffer, 0, "<I")))


def _number(buffer: bytes, place: int, form: str) -> Any:
    if not 0 <= place <= len(buffer) - struct.calcsize(form):
        raise ValueError("an offset out of the file")
    return struct.unpack_from(form, buffer, place)[0]
