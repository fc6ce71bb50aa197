"""Files of HDF5: weights and attributes within the file itself, nothing from other files."""

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

MOST_TIMES = 16
"""How many times its own size the arrays of a file may have."""

SPARE_BYTES = 64 << 20


def violations_in_archive(path: Path) -> Iterator[str]:
    """Yield what is not allowed in the files of HDF5 in an archive."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.lower().endswith((".h5", ".hdf5")):
                with archive.open(entry) as content:
                    yield from _check(io.BytesIO(content.read()), entry.file_size)


def violations_in_file(path: Path) -> Iterator[str]:
    """Yield what is not allowed in a file of HDF5."""
    with path.open("rb") as content:
        yield from _check(content, path.stat().st_size)


def attribute(path: Path, name: str) -> str | None:
    """Return an attribute of a file as text; ``None`` if it has none, or is no HDF5."""
    try:
        import h5py
    except ImportError:
        return None  # Keras cannot open the file without it either
    with h5py.File(path) as file:
        value = file.attrs.get(name)
    return value.decode() if isinstance(value, bytes) else value


def _check(content: BinaryIO, size: int) -> Iterator[str]:
    try:
        import h5py
    except ImportError:
        return
    limit, total = MOST_TIMES * size + SPARE_BYTES, 0
    with h5py.File(content) as file:
        for place, item in _items(file):
            if isinstance(item, str):
                yield f"`{place}`, which is {item}"
            elif isinstance(item, h5py.Dataset):
                total += item.size * item.dtype.itemsize
                if item.external or item.is_virtual:
                    yield f"`{place}`, whose values are in another file"
    if total > limit:
        yield f"arrays of {total:,} bytes in a file of {size:,}"


def _items(group: Any, *, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield paths and items of a group and all in it; a link out of the group as a text."""
    import h5py

    seen = set() if seen is None else seen
    for name in group:
        link, inner = group.get(name, getlink=True), f"{path}/{name}"
        if isinstance(link, h5py.ExternalLink):
            yield inner, f"a link to the file `{link.filename}`"
        elif isinstance(link, h5py.SoftLink):
            yield inner, f"a link to `{link.path}`"
        else:
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            yield inner, item
            if isinstance(item, h5py.Group) and address not in seen:  # a group may hold itself
                seen.add(address)
                yield from _items(item, path=inner, seen=seen)
