"""Networks in TVM's JSON, whose large arrays are read one after the other.

TVM's own reader holds the text, the parsed text and the arrays at once, four times the size of the arrays. Constants in
float32 whose numbers a 16-bit type has are written in that type, and are float32 again once they are read.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import math
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

LARGE_BYTES = 1 << 20
"""Size from which an array is mapped."""

SHORT_BYTES = 1 << 16
"""Size from which constants in float32 are written in 16 bits."""

FIRST = 1 << 16
"""Numbers that decide first, as most constants have no such type."""

BLOCK = 1 << 20
"""Characters that are read at once."""

HEAD, SIZE = struct.Struct("<QQiiiBBH"), struct.Struct("<q")
"""Before the elements of an array (``SaveDLTensor`` of TVM's runtime/tensor.h): a number that marks arrays, a reserved
one, device, number of dimensions, type of the elements; then each dimension, and the size in bytes.
"""

TYPE = struct.Struct("<iBBH")
"""Its last four numbers: dimensions, kind of the type, its bits, and its lanes."""

LONGEST_HEAD = 1024
"""Characters in which the dimensions are."""

ARRAY = 0xDD5E40F096B4A13F
MARK = b'"' + base64.b64encode(struct.pack("<QQ", ARRAY, 0))[:20]
"""Begin of an array in a file."""

KINDS, BITS = {0: "i", 1: "u", 2: "f"}, (8, 16, 32, 64)
"""DLPack's codes of types that numpy has, and their sizes."""

PLACEHOLDER_BYTES = 16


def shortened(values: tvm.runtime.Tensor) -> tvm.runtime.Tensor:
    """Return what a file has in place of a constant's values: 16 bits of float32 numbers that have no more."""
    if str(values.dtype) != "float32" or 4 * math.prod(values.shape) < SHORT_BYTES:
        return values
    array = np.from_dlpack(values)
    short = None if _short(array.reshape(-1)[:FIRST]) is None else _short(array)
    return values if short is None else tvm.runtime.tensor(short)


def _short(values: Any) -> Any:
    """Return float32 numbers in float16, or the bits of a bfloat16 in int16; ``None`` if neither has all of them."""
    bits = values.view("uint32")
    if not (bits & 0xFFFF).any():
        return (bits >> 16).astype("uint16").view("int16")
    with np.errstate(over="ignore"):
        short = values.astype("float16")
    return short if np.array_equal(short.astype("float32"), values) else None


def read_network(path: Path) -> Any:
    """Return what a file of TVM's JSON holds, like ``tvm.ir.load_json``, but large constants mapped."""
    network = _read(path)

    def widened(constant: GenericConst) -> GenericConst:
        kinds = (str(constant.value.dtype), str(getattr(constant.ty, "dtype", "")))
        if kinds not in [("float16", "float32"), ("int16", "float32")]:
            return constant
        short = np.from_dlpack(constant.value)
        wide = _empty(short.shape, folder=path.parent)
        values = np.from_dlpack(wide)
        if kinds[0] == "float16":
            np.copyto(values, short)
        else:
            np.left_shift(short.view("uint16"), 16, out=values.view("uint32"), dtype="uint32")
        return GenericConst(wide, constant.ty)

    return replace_constants(network, widened) if isinstance(network, tvm.IRModule) else network


def _read(path: Path) -> Any:
    """Return what a file holds, with values of 16 bits as they are."""
    arrays: dict[bytes, Any] = {}
    try:
        with path.open("rb") as file:
            text = b"".join(_without_large(file, arrays, folder=path.parent)).decode()
    except (ValueError, struct.error, OSError):
        # Damaged, as TVM will say, or there is no room for the arrays in files.
        return tvm.ir.load_json(path.read_text())
    network, left = tvm.ir.load_json(text), set(arrays)

    def fill(constant: GenericConst) -> GenericConst:
        content = constant.value.numpy().tobytes() if str(constant.value.dtype) == "uint8" else b""
        if content not in arrays:
            return constant
        left.discard(content)
        return GenericConst(arrays[content], constant.ty)

    filled = replace_constants(network, fill) if arrays and isinstance(network, tvm.IRModule) else network
    # An array that is no constant of a function stays in the text.
    return tvm.ir.load_json(path.read_text()) if left else filled


def replace_constants(module: tvm.IRModule, replace: Callable[[GenericConst], GenericConst]) -> tvm.IRModule:
    """Return the module with every constant array replaced; a node that is used twice is replaced by one node."""
    replacements: dict[int, GenericConst] = {}

    def replace_once(constant: GenericConst) -> GenericConst:
        # Other constants, such as texts, are small and stay.
        if not isinstance(constant.value, tvm.runtime.Tensor):
            return constant
        node = constant.__chandle__()
        if node not in replacements:
            replacements[node] = replace(constant)
        return replacements[node]

    result = module.clone()
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            result.update_func(name, tvm_ffi.structural_map(function, (GenericConst, replace_once)))
    return result


def _without_large(file: BinaryIO, arrays: dict[bytes, Any], *, folder: Path) -> Iterator[bytes]:
    """Yield the text of a file with placeholders for large arrays.

    Args:
        file: The file.
        arrays: Gets the arrays by placeholder.
        folder: Where the arrays are kept.
    """
    buffer = file.read(BLOCK)
    while buffer:
        begin = buffer.find(MARK) + 1
        if not begin:
            more = file.read(BLOCK)
            # The end may be the begin of a mark.
            end = len(buffer) - len(MARK) + 1 if more else len(buffer)
            yield buffer[: max(end, 0)]
            buffer = buffer[max(end, 0) :] + more
            continue
        yield buffer[:begin]
        buffer = buffer[begin:] if len(buffer) - begin > BLOCK else buffer[begin:] + file.read(BLOCK)
        form = _form(buffer)
        if form is None:
            yield buffer[: len(MARK)]
            buffer = buffer[len(MARK) :]
            continue
        array, buffer = _read_array(file, buffer, *form, folder=folder)
        content = os.urandom(PLACEHOLDER_BYTES)  # equal to no other constant
        arrays[content] = tvm.runtime.from_dlpack(array)
        head = HEAD.pack(ARRAY, 0, 1, 0, 1, 1, 8, 1) + 2 * SIZE.pack(len(content))
        yield base64.b64encode(head + content)


def _form(text: bytes) -> tuple[str, tuple[int, ...]] | None:
    """Return type and shape of the array that a text begins with, if it is large and numpy has its type."""
    head, _ = _decode(text[:LONGEST_HEAD].partition(b'"')[0])
    rank, code, bits, lanes = TYPE.unpack_from(head, HEAD.size - TYPE.size)
    if code not in KINDS or bits not in BITS or lanes != 1 or len(head) < HEAD.size + SIZE.size * rank:
        return None
    sizes = struct.unpack_from(f"<{rank}q", head, HEAD.size)
    return (f"{KINDS[code]}{bits // 8}", sizes) if math.prod(sizes) * bits // 8 >= LARGE_BYTES else None


def _read_array(file: BinaryIO, text: bytes, dtype: str, shape: tuple[int, ...], *, folder: Path) -> tuple[Any, bytes]:
    """Return the array that a text and the rest of its file begin with, and what follows it of the text."""
    left, end, head = b"", b"", HEAD.size + SIZE.size * (len(shape) + 1)
    # This file has no name, and ends with the array.
    with _nameless_file(folder) as content:
        while text and not end:
            part, end, rest = text.partition(b'"')
            values, left = _decode(left + part)
            content.write(values[head:])
            head = max(head - len(values), 0)
            text = end + rest or file.read(BLOCK)
        content.flush()
        # Changes of a mapping in this mode stay within this process.
        return np.memmap(content, dtype, "c", 0, shape), text


def _empty(shape: tuple[int, ...], *, folder: Path) -> Any:
    """Return a new array in float32, which is in a file if it is large and there is room."""
    size = 4 * math.prod(shape)
    with contextlib.suppress(OSError):
        if size >= LARGE_BYTES:
            with _nameless_file(folder) as content:
                # Without room for all of it, a later write to the memory would end the process.
                os.posix_fallocate(content.fileno(), 0, size)
                return tvm.runtime.from_dlpack(np.memmap(content, "float32", "r+", 0, shape))
    return tvm.runtime.empty(shape, "float32")


def _nameless_file(folder: Path) -> Any:
    """Return an empty file without a name, in the folder if it can be written."""
    # The system's folder of temporary files is often in memory, which the arrays are to be kept out of.
    try:
        return TemporaryFile(dir=folder)
    except OSError:
        return TemporaryFile()


def _decode(text: bytes) -> tuple[bytes, bytes]:
    """Return the bytes that a text of base64 stands for, and the last characters if they are too few for one."""
    text = text.replace(b"\\", b"")  # TVM writes `/` as `\/`
    end = len(text) // 4 * 4
    return binascii.a2b_base64(text[:end]), text[end:]
