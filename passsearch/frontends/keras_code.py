"""Python code in files of Keras: Lambda layers, and classes and functions that a configuration imports by name."""

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_OWN_MODULES = ("keras", "tf_keras", "tensorflow.keras", "tensorflow.python.keras")


def in_archive(path: Path) -> Iterator[str]:
    """Yield the code in a ``.keras`` archive."""
    # Before Keras 3.9 `safe_mode` let a configuration import any function (CVE-2025-1550).
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.lower().endswith(".json"):
                yield from in_configuration(json.loads(archive.read(entry)))


def in_hdf5(path: Path) -> Iterator[str]:
    """Yield the code in an ``.h5`` file, for which Keras has no safe mode (CVE-2025-9905)."""
    try:
        import h5py
    except ImportError:
        return  # Keras cannot open the file without it either
    try:
        with h5py.File(path) as file:
            configuration = file.attrs.get("model_config", "{}")
    except OSError:
        return  # no HDF5; Keras refuses it
    yield from in_configuration(json.loads(configuration))


def in_configuration(node: Any) -> Iterator[str]:
    """Yield the code in the configuration of a layer and in all that are part of it."""
    if isinstance(node, list):
        for item in node:
            yield from in_configuration(item)
    if not isinstance(node, dict):
        return
    name, module = node.get("class_name"), node.get("module")
    if name in ("Lambda", "__lambda__"):
        yield "a Lambda layer, which holds Python code"
    elif isinstance(name, str) and isinstance(module, str) and not _is_own(module):
        yield f"`{module}:{node.get('config') if name == 'function' else name}`"
    for key, value in node.items():
        # Losses and metrics, often the user's own functions, are not loaded (`compile=False`).
        if key != "compile_config":
            yield from in_configuration(value)


def _is_own(module: str) -> bool:
    return any(module == own or module.startswith(f"{own}.") for own in _OWN_MODULES)
