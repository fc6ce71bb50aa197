"""MXNet's symbols and parameter files: operators by list, arrays within the file."""

import json
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from passsearch.frontends.foreign.operators import allowed

_LIST, _MAGIC_1, _MAGIC_2, _MAGIC_3 = 0x112, 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_BYTES = (4, 8, 2, 1, 4, 1, 8, 1, 2, 2, 4, 8, 2)
"""Bytes of a value by the number of its type: float32, float64, float16, uint8, int32, int8, int64, bool, …"""

MOST_DIMENSIONS = 32


def violations_in_symbol(path: Path) -> Iterator[str]:
    """Yield the operators of a symbol that are not allowed, those of symbols in it included."""
    left: list[Any] = [json.loads(path.read_bytes())]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            name = node.get("op", "null")
            if name != "null" and name not in allowed("mxnet"):
                yield f"operator `{name}`"
            left += node.values()


def violations_in_parameters(path: Path) -> Iterator[str]:
    """Read the sizes of all arrays in a parameter file; nothing in one that holds them is refused.

    Raises:
        ValueError: It is cut, no file of parameters, or has sparse arrays or arrays beyond its end.
    """
    with path.open("rb") as file:
        kind, _, count = _read(file, "<QQQ")
        if kind != _LIST:
            raise ValueError("no parameters")
        size = path.stat().st_size
        if count > size:
            raise ValueError("more arrays than bytes")
        for _ in range(count):
            _skip_array(file, size)
    return iter(())


def _skip_array(file: BinaryIO, size: int) -> None:
    """Move to the end of an array; the layout is that of MXNet's ``NDArray::Save``."""
    (magic,) = _read(file, "<I")
    if magic in (_MAGIC_2, _MAGIC_3):
        (storage,) = _read(file, "<i")
        if storage not in (0, -1):
            raise ValueError("a sparse array")
    is_old = magic not in (_MAGIC_1, _MAGIC_2, _MAGIC_3)
    count = magic if is_old else _read(file, "<i" if magic == _MAGIC_3 else "<I")[0]
    if not 0 <= count <= MOST_DIMENSIONS:
        raise ValueError("an array without a shape")
    shape = _read(file, f"<{count}{'I' if is_old else 'q'}")
    if count == 0 and magic != _MAGIC_3:
        return  # an array that holds nothing ends here
    device, _, dtype = _read(file, "<iii")
    if device not in (1, 2, 3, 5):
        raise ValueError("an array on an unknown device")
    if not 0 <= dtype < len(_BYTES) or min(shape, default=1) < 0:
        raise ValueError("an array of an unknown type")
    end = file.tell() + math.prod(shape) * _BYTES[dtype]
    if end > size:
        raise ValueError(f"an array of {math.prod(shape):,} values that the file does not hold")
    file.seek(end)


def _read(file: BinaryIO, form: str) -> tuple[Any, ...]:
    size = struct.calcsize(form)
    content = file.read(size)
    if len(content) < size:
        raise ValueError("a file that is cut")
    return struct.unpack(form, content)
