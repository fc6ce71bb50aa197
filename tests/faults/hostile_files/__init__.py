"""Files of networks that are made to run code, to read or write elsewhere, or to fill the memory."""

from collections.abc import Iterator
from pathlib import Path

from hostile_files import compiler_files, keras_files, onnx_files, tensorflow_files, torch_files, zip_files


def hostile_networks(folder: Path) -> Iterator[Path]:
    """Write one file or folder for each way in which a network may be hostile, and yield its path."""
    for kind in (tensorflow_files, keras_files, torch_files, zip_files, onnx_files, compiler_files):
        yield from kind.write(folder)
