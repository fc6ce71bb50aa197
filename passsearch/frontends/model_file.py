"""The record of a network's file, and functions that write such files completely or not at all."""

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from passsearch.core import PARTIAL, Case, InputRange, Json, TensorType, replace_durably, safe_file_name
from passsearch.dialects.contract import SourceNetwork
from passsearch.errors import EnvironmentFault

if TYPE_CHECKING:
    from passsearch.frontends.call_form import CallForm

Format: TypeAlias = Literal["onnx", "torchscript", "tensorflow", "tflite", "mxnet", "exported", "ir"]

CHUNK_BYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelFile:
    """A network in a form that a worker can load.

    Attributes:
        path: Absolute path of the file; the folder of a SavedModel, the symbol's JSON file of an MXNet network.
        format: File format; ``ir`` is the JSON of a dialect, with the parameters in a file beside it.
        name: Short name for reports and folders.
        source: The path or name that the user typed, or the type of the object.
        sha256: Digest of the file and of the files that belong to it (parameters, external data).
        inputs: Input types that the importer cannot read from the file: those the user stated, and those with
            dynamic dimensions after these are bound.
        batch: Size for first dimensions that only the importer can recognise as open.
        parameters: File of the weights, if the importer needs its path.
        toolchain: ``this`` if only the interpreter that wrote the file is certain to read it, else ``None``.
        function: Function of a compiler module that is tuned; empty for ``main``.
        cases: The cases that are weighed, where there are several.
        case_paths: Files of the network with the sizes of one case, by entry function.
        samples: The user's file of samples; ``None`` without one.
        ranges: Ranges of the inputs' values, where a run has recorded them; ``None`` to find them in the graph.
        limit: Largest deviation of outputs that rounding explains, by the dtypes that the file computes in; ``None``
            where the file does not tell.
        otherwise: Writes the same network in another format, for a compiler that refuses this one; ``None`` if there
            is no other format.
        export_s: Seconds that the export of the user's object took, and ``otherwise`` takes about as long.
        live: Opens the user's object, which its own framework runs in this process; ``None`` for a file.
        form: How the user's object is called; ``None`` for a file.
        original: The user's file with its input types, if this file is a copy of it with fixed sizes or evaluated
            constants.
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
    function: str = ""
    cases: tuple[Case, ...] = ()
    case_paths: Mapping[str, Path] = field(default_factory=dict)
    samples: Path | None = None
    ranges: Mapping[str, InputRange] | None = None
    limit: float | None = None
    otherwise: Callable[[], "ModelFile"] | None = field(default=None, compare=False, repr=False)
    export_s: float = field(default=0.0, compare=False, repr=False)
    live: Callable[[], SourceNetwork] | None = field(default=None, compare=False, repr=False)
    form: "CallForm | None" = field(default=None, compare=False, repr=False)
    original: "ModelFile | None" = field(default=None, compare=False, repr=False)

    def to_request(self) -> dict[str, Json]:
        """Return the JSON that asks a worker to load the file."""
        inputs: dict[str, Json] = {name: [list(kind.shape), kind.dtype] for name, kind in self.inputs.items()}
        request: dict[str, Json] = {
            "path": str(self.path),
            "format": self.format,
            "inputs": inputs,
            "batch": self.batch,
        }
        request |= {"parameters": str(self.parameters)} if self.parameters else {}
        request |= (
            {"case_paths": {name: str(path) for name, path in self.case_paths.items()}} if self.case_paths else {}
        )
        request |= {"original": self.original.path.name} if self.original else {}
        return request | self.calls

    @property
    def samples_sha256(self) -> str:
        """Digest of the user's file of samples; empty without one."""
        return digest_files([self.samples]) if self.samples else ""

    @property
    def calls(self) -> dict[str, Json]:
        """What is tuned, as JSON; empty for a ``main`` with one size."""
        function: dict[str, Json] = {"function": self.function} if self.function else {}
        return function | ({"cases": [case.to_json() for case in self.cases]} if self.cases else {})


def digest_files(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the contents of files, in order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()


def cache_file_name(name: str, digest: str, *, suffix: str) -> str:
    """Return a file name made of a readable name and the digest of everything that decides the content."""
    return f"{safe_file_name(name)}-{digest[:16]}{suffix}"


def save_bytes(folder: Path, data: bytes, *, name: str, suffix: str) -> Path:
    """Write content to a file that is named by its digest; an existing file stays as it is.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    file_name = cache_file_name(name, hashlib.sha256(data).hexdigest(), suffix=suffix)
    return save_file(folder, file_name, write=lambda path: path.write_bytes(data))


def save_file(folder: Path, name: str, *, write: Callable[[Path], object]) -> Path:
    """Write a file completely or not at all; an existing file stays as it is.

    Args:
        folder: The folder of the file; it is created if it does not exist.
        name: The file's name.
        write: Writes the content to the path it receives.

    Returns:
        The absolute path of the file.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    path = folder.absolute() / name
    if path.exists():
        _log.debug("Using `%s`: its name contains the digest of its content.", path)
        return path
    _log.info("Writing `%s`.", path)
    with temporary_subfolder(folder) as partial:
        write(partial / name)
        replace_durably(partial / name, path)
    return path


def save_group(folder: Path, name: str, *, write: Callable[[Path], object]) -> Path:
    """Write files that belong together, and name them by the digest of their content.

    Args:
        folder: The folder of the files; existing files of the same names, and so the same content, are replaced.
        name: Readable part of the file names.
        write: Receives a path without an ending; every file it writes must have a name that begins with this path.

    Returns:
        The absolute path without an ending that all final names begin with.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    with temporary_subfolder(folder) as partial:
        write(partial / "network")
        files = sorted(partial.iterdir())
        stem = cache_file_name(name, digest_files(files), suffix="")
        # The JSON moves last: readers look for it first and expect the parameters beside it.
        for file in sorted(files, key=lambda path: path.suffix == ".json"):
            os.replace(file, folder / file.name.replace("network", stem, 1))
    return folder.absolute() / stem


@contextmanager
def temporary_subfolder(folder: Path) -> Iterator[Path]:
    """Yield a new folder inside ``folder`` and delete it afterwards; ``folder`` is created if it does not exist.

    Raises:
        EnvironmentFault: The folder cannot be written.
    """
    subfolder: Path | None = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Inside `folder`, because a rename is atomic only within one file system.
        subfolder = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder))
        yield subfolder
    except OSError as error:
        raise EnvironmentFault(
            f"Cannot write to `{folder}`: {error.strerror or error}; make room or choose another folder."
        ) from error
    finally:
        if subfolder is not None:
            shutil.rmtree(subfolder, ignore_errors=True)
