"""ONNX files: operators of known domains, and weights in files of the folder that hold them.

Field numbers are those of ``onnx.proto``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from passsearch.frontends.foreign.wire import Bytes, fields, numbers, parts, read, text, texts

_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"})
"""Domains whose operators are part of ONNX or of ONNX Runtime."""

_FILE_OPERATORS = frozenset({"EPContext", "PythonOp", "ATen", "TritonOp", "Snpe"})
"""Operators of ONNX Runtime that load programs, or call Python."""

_CHILDREN: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
"""Kinds of the messages in the fields of each kind."""

MOST_NODES = 1_000_000
"""Most operators after functions are written out, which may call each other."""

_Functions: TypeAlias = Mapping[tuple[str, str], Bytes]
"""Functions by domain and name."""


@dataclass(frozen=True)
class _Part:
    """A part of a file of weights: the offset and length that a tensor declares; ``None`` without a length."""

    file: str
    offset: int
    length: int | None


def violations_in_model(path: Path) -> Iterator[str]:
    """Yield operators of unknown domains, and weights that are not in the folder or not in their file.

    Raises:
        ValueError: The file is no message of Protocol Buffers.
    """
    content = read(path)
    # A function of the model may have any domain.
    functions = {(text(each, 10), text(each, 1)): each for each in parts(content, 25)}
    external: list[_Part] = []
    for kind, message in _nested("model", content):
        if kind == "node":
            yield from _violations_in_node(message, functions)
        if kind == "tensor":
            external += _external(message)
    yield from _violations_in_weights(path, external)
    count = _count("model", content, functions, counts={})
    if count > MOST_NODES:
        yield f"functions that stand for {count:,} operators"


def _nested(kind: str, message: Bytes) -> Iterator[tuple[str, Bytes]]:
    """Yield a message and all in it that hold operators or tensors, with their kinds."""
    left = [(kind, message)]
    while left:
        kind, message = left.pop()
        yield kind, message
        for number, value in fields(message) if _CHILDREN[kind] else ():
            if number in _CHILDREN[kind] and not isinstance(value, int):
                left.append((_CHILDREN[kind][number], value))


def _count(kind: str, message: Bytes, functions: _Functions, *, counts: dict[tuple[str, str], int]) -> int:
    """Return the number of operators after all functions are written out; those of functions stay in ``counts``.

    Raises:
        RecursionError: A function calls itself.
    """
    total = 0
    for each, node in _nested(kind, message):
        name = (text(node, 7), text(node, 4)) if each == "node" else ("", "")
        if name in functions and name not in counts:
            counts[name] = _count("function", functions[name], functions, counts=counts)
        total += (each == "node") + counts.get(name, 0)
    return total


def _violations_in_node(node: Bytes, own: _Functions) -> Iterator[str]:
    domains, names = list(texts(node, 7)) or [""], list(texts(node, 4)) or [""]
    for domain, name in ((domain, name) for domain in domains for name in names):
        if name in _FILE_OPERATORS if domain in _DOMAINS else (domain, name) not in own:
            yield f"operator `{name}` of the domain `{domain}`"


def _external(tensor: Bytes) -> Iterator[_Part]:
    # Readers cut a number to 32 bits, so any but 0 may mean another file.
    if not any(numbers(tensor, 14)):
        return
    entries = [(text(each, 1), text(each, 2)) for each in parts(tensor, 13)]
    values = dict(entries)
    if len(values) != len(entries):
        raise ValueError("a tensor with two places")
    length = int(values["length"]) if "length" in values else None
    yield _Part(values.get("location", ""), int(values.get("offset", "0")), length)


def _violations_in_weights(path: Path, external: list[_Part]) -> Iterator[str]:
    for name in sorted({each.file for each in external}):
        wrong = _wrong_place(path, name)
        if wrong:
            yield f"weights in `{name}`, which {wrong}"
        elif (path.parent / name).is_file():  # a missing file has an error of its own
            yield from _violations_in_file(
                name, (path.parent / name).stat().st_size, [e for e in external if e.file == name]
            )


def _wrong_place(path: Path, name: str) -> str:
    """Return why weights may not be in a file, or nothing."""
    place = PurePosixPath(name)
    if place.is_absolute() or ".." in place.parts or not name or "\\" in name:
        return "is not in the folder of the network"
    file = path.parent / name
    # Caches of hubs link both files to a folder of their own.
    folders = (path.parent.resolve(), path.resolve().parent)
    if not any(folder in file.resolve().parents for folder in folders):
        return "is a link out of the folder of the network"
    return "is no file" if file.exists() and not file.is_file() else ""


def _violations_in_file(name: str, size: int, external: list[_Part]) -> Iterator[str]:
    # A part without a length goes to the end of the file.
    places = [(part.offset, size - part.offset if part.length is None else part.length) for part in external]
    end = 0
    for offset, length in sorted(set(places)):
        if offset < 0 or length < 0 or offset + length > size:
            yield f"weights beyond the end of `{name}` (offset {offset:,}, length {length:,}, size {size:,})"
        if length > 0 and offset < end:
            yield f"weights in `{name}` that overlap"
        end = max(end, offset + length)
    total = sum(length for _, length in places)
    if total > 2 * size:
        yield f"weights of {total:,} bytes in a file of {size:,}"
