"""A network as a file, and how such files are kept."""

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from passsearch.core import Json, TensorType
from passsearch.errors import EnvironmentFault

Format: TypeAlias = Literal["onnx", "torchscript", "tensorflow", "tflite", "mxnet", "exported", "ir"]

CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """A network as a worker loads it.

    Attributes:
        path: The file, absolute; of a SavedModel the folder, of MXNet the symbol's JSON.
        format: What it holds; ``ir`` is a dialect's own JSON, parameters beside it.
        name: Short name for reports and folders.
        source: What the user typed, or the type of the object given.
        sha256: Digest of the file and of the files that belong to it (parameters, external data).
        inputs: What the importer must be told: the user's own types and dynamic dimensions as bound.
        batch: Size for first dimensions that only the importer sees to be open.
        parameters: File with the weights, where the importer must be told of it.
        toolchain: ``this`` when only the interpreter that made the file is sure to read it, else ``None``.
    """

    path: Path
    format: Format
    name: str
    source: str
    sha256: str
    inputs: Mapping[str, TensorType] = field(default_factory=dict)
    batch: int | None = None
    parameters: Path | None = None
    toolchain: str | None = None

    def to_request(self) -> dict[str, Json]:
        """The form in which a worker is told what to load."""
        inputs: dict[str, Json] = {name: [list(kind.shape), kind.dtype] for name, kind in self.inputs.items()}
        request: dict[str, Json] = {
            "path": str(self.path),
            "format": self.format,
            "inputs": inputs,
            "batch": self.batch,
        }
        return request | ({"parameters": str(self.parameters)} if self.parameters else {})


def digest_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the contents of files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def cache_file_name(name: str, digest: str, *, suffix: str) -> str:
    """File name from a readable name and what decides the content."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "network"
    return f"{readable[:60]}-{digest[:16]}{suffix}"


def keep_bytes(folder: Path, data: bytes, *, name: str, suffix: str) -> Path:
    """Keep content under its own digest; a file that is there already stays as it is.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    kept = cache_file_name(name, hashlib.sha256(data).hexdigest(), suffix=suffix)
    return keep_file(folder, kept, write=lambda path: path.write_bytes(data))


def keep_file(folder: Path, name: str, *, write: Callable[[Path], object]) -> Path:
    """Have a file written under a passing name, then give it its own in one step.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    path = folder.absolute() / name
    if path.exists():
        return path
    with temporary_subfolder(folder) as passing:
        write(passing / name)
        os.replace(passing / name, path)
    return path


def keep_group(folder: Path, name: str, *, write: Callable[[Path], object]) -> Path:
    """Have files that belong together written, then give them one name made from their content.

    Args:
        folder: Where they go; files that are there already are replaced by their equals.
        name: Readable part of the name.
        write: Told the path that all their names begin with.

    Returns:
        The path that all their names begin with now.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    with temporary_subfolder(folder) as passing:
        write(passing / "network")
        files = sorted(passing.iterdir())
        kept = cache_file_name(name, digest_files(files), suffix="")
        # The JSON goes last: where it is, its parameters are.
        for file in sorted(files, key=lambda each: each.suffix == ".json"):
            os.replace(file, folder / file.name.replace("network", kept, 1))
    return folder.absolute() / kept


@contextmanager
def temporary_subfolder(folder: Path) -> Iterator[Path]:
    """A folder inside ``folder``, made if need be, that is gone afterwards.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    made: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
        yield made
    except OSError as error:
        raise EnvironmentFault(
            f"Cannot write to `{folder}`: {error.strerror or error}; free or name another folder."
        ) from error
    finally:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)
