"""Archives that unpack to more than their files mean, or that two readers read differently."""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

HARMLESS = json.dumps({"graph": {"nodes": [{"target": "torch.ops.aten.relu.default"}]}})
HOSTILE = json.dumps({"graph": {"nodes": [{"target": "torch.os.system"}]}})


def archive(path: Path, entries: Mapping[str, "str | bytes"], *, method: int = zipfile.ZIP_STORED) -> Path:
    """Write an archive."""
    with zipfile.ZipFile(path, "w", method) as file:
        for name, content in entries.items():
            file.writestr(name, content)
    return path


def program(path: Path, content: str = HARMLESS, **entries: "str | bytes") -> Path:
    """Write a program of ``torch.export`` with further entries, their names with ``__`` for slashes."""
    others = {f"m/{name.replace('__', '/')}": each for name, each in entries.items()}
    return archive(path, {"m/archive_format": "pt2", "m/models/model.json": content, **others})


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    yield _bomb(folder / "bomb.pt2", "m/models/model.json")
    yield _bomb(folder / "bomb.keras", "config.json")
    yield _bomb(folder / "bomb-weights.keras", "model.weights.h5")
    yield _bomb(folder / "bomb.pt", "m/data/0")
    yield _overlapping(folder / "overlapping.pt2")
    yield _two_directories(folder / "directories.pt2")
    yield program(folder / "nested.pt2", data__weights__inner_zip="x", models__inner__model="x")
    yield archive(folder / "roots.pt2", {"a/models/model.json": HARMLESS, "m/models/model.json": HARMLESS})
    yield archive(folder / "leaves.keras", {"config.json": "{}", "assets/../../x": "x"})
    yield archive(folder / "packed.pt2", {"m/models/model.json": HARMLESS}, method=zipfile.ZIP_LZMA)
    with zipfile.ZipFile(program(folder / "comment.pt2"), "a") as file:
        file.comment = b"PK\x05\x06" + bytes(18)
    yield folder / "comment.pt2"
    encrypted = program(folder / "encrypted.pt2")
    encrypted.write_bytes(
        encrypted.read_bytes().replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")
    )
    yield encrypted
    before = program(folder / "before.pt2")
    before.write_bytes(b"\x89HDF" + before.read_bytes())
    yield before
    yield program(folder / "deep.pt2", "[" * 200_000)


def _bomb(path: Path, name: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr(name, b"[" * (100 << 20))
    return path


def _overlapping(path: Path) -> Path:
    """Write an archive whose many entries are the same bytes."""
    data = zlib.compress(b" " * (4 << 20))[2:-4]
    name, size, check = b"m/models/model.json", 4 << 20, zlib.crc32(b" " * (4 << 20))
    head = struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 8, 0, 0, check, len(data), size, len(name), 0) + name
    entry = struct.pack(
        "<4s6H3L5H2L", b"PK\x01\x02", 20, 20, 0, 8, 0, 0, check, len(data), size, len(name), 0, 0, 0, 0, 0, 0
    )
    count = 200
    directory = (entry + name) * count
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(head) + len(data), 0)
    path.write_bytes(head + data + directory + end)
    return path


def _two_directories(path: Path) -> Path:
    """Write an archive in which the offset of the directory and its place differ: readers take one or the other."""
    hostile, harmless = path.with_suffix(".first"), path.with_suffix(".second")
    first, second = program(hostile, HOSTILE).read_bytes(), program(harmless).read_bytes()
    path.write_bytes(first[:-22] + second)
    hostile.unlink()
    harmless.unlink()
    return path
