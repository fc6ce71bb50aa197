"""The files of a deployment, checked against the SHA-256 that was written down for each when it was made.

The digests show damage and mixed copies; they are no signature, because who can write the folder can write the digests,
too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import shutil
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

PIPELINE = "pipeline.json"
"""The pipeline file: it holds the digests of all exported files, and its own, which counts as zeros in it."""

SUMS, CONDITIONS = "SHA256SUMS", "conditions.txt"
"""In a built folder: the digests of its files (``sha256sum --check`` reads them), and what the build needs."""

COPY_AGAIN = "copy the exported folder again, whole, or export it again"
BUILD_AGAIN = "run build_model.py again"


class DeploymentError(RuntimeError):
    """A deployment that cannot be used as it is. The text is one line that ends with the next step."""


def sha256(path: Path) -> str:
    """Return the digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def own_digest(content: bytes, written: str) -> str:
    """Return the digest of a pipeline file's content, in which the digest that is written there counts as zeros."""
    return hashlib.sha256(content.replace(written.encode(), b"0" * 64, 1)).hexdigest()


def require(path: Path, expected: Any, again: str) -> None:
    """Raise an error if a file is missing, cannot be read, or has another content than when it was made."""
    try:
        actual = sha256(path)
    except FileNotFoundError:
        raise DeploymentError(f"{path} is missing; {again}.") from None
    except OSError as error:
        raise DeploymentError(f"{path} cannot be read ({error.strerror}); {again}.") from None
    if actual != expected:
        raise DeploymentError(f"{path} has changed since it was made (another SHA-256); {again}.")


def read_record(folder: Path = HERE) -> dict[str, Any]:
    """Return the content of the pipeline file, once it has been compared with its own digest."""
    path = folder / PIPELINE
    try:
        content = path.read_bytes()
        record: dict[str, Any] = json.loads(content.decode())
        written = record["sha256"][PIPELINE]
        is_same = own_digest(content, written) == written
    except FileNotFoundError:
        raise DeploymentError(f"{path} is missing; {COPY_AGAIN}.") from None
    except OSError as error:
        raise DeploymentError(f"{path} cannot be read ({error.strerror}); {COPY_AGAIN}.") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        is_same = False
    if not is_same:
        raise DeploymentError(f"{path} has changed since it was exported (another SHA-256); {COPY_AGAIN}.")
    return record


def check_export(*, suffix: str = "") -> dict[str, Any]:
    """Compare the exported files beside this one with their digests, and return the pipeline file's content.

    Args:
        suffix: End of the names that are compared; empty for all.
    """
    record = read_record()
    for name, expected in record["sha256"].items():
        if name.endswith(suffix) and name != PIPELINE:
            require(HERE / name, expected, COPY_AGAIN)
    return record


def write_sums(folder: Path) -> None:
    """Write the digests of all files of a built folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file() and file.name != SUMS)
    lines = [f"{sha256(file)}  {file.relative_to(folder).as_posix()}\n" for file in files]
    (folder / SUMS).write_text("".join(lines))


def put_in_place(folder: Path, out: Path) -> None:
    """Copy a built folder to another, and delete what only an earlier build wrote there.

    An earlier file keeps its content for the processes that have mapped it: a new file takes its name.
    """
    earlier = set()
    with contextlib.suppress(OSError, ValueError):
        earlier = {line.partition("  ")[2] for line in (out / SUMS).read_bytes().decode().splitlines()}
    names = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    # The digests come last: until then, files that do not belong together are refused.
    for name in sorted(names, key=lambda name: (name == SUMS, name)):
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.new")
        shutil.copy2(str(folder / name), str(fresh))
        os.replace(str(fresh), str(target))
    for file in out.rglob("*"):
        if file.relative_to(out).as_posix() in earlier - names:
            file.unlink()


class Built:
    """A built folder, whose files are compared with their digests before they are used.

    Attributes:
        folder: The folder.
        tvm_version: The TVM that built it.
        device: Kind of the device it runs on, such as ``cpu``.
        pipeline: Digest of the pipeline file it was built from.
        processor: The processor's architecture, then the features of it that the code uses, as Linux names them.
        inputs: By entry function, ``[name, dtype, shape]`` of its inputs in order. An open size has a name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not folder.is_dir():
            raise DeploymentError(f"{folder} is missing; run build_model.py first.")
        if (folder / PIPELINE).is_file() and not (folder / SUMS).exists():
            built = folder / "built"
            advice = "load that" if built.is_dir() else "run build_model.py first, and load that"
            raise DeploymentError(f"{folder} is the exported folder, and its build is {built}; {advice}.")
        self._sums = self._read_sums()
        self.processor: list[str] = []
        self.inputs: dict[str, list[Any]] = {}
        fields: dict[str, str] = {}
        for line in self.path(CONDITIONS).read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(" ")
            if key == "processor":
                self.processor = value.split()
            elif key == "function":
                self.inputs[value] = []
            elif key == "input":  # input FUNCTION DTYPE SIZE,SIZE NAME; a name may have blanks
                function, dtype, shape, name = value.split(" ", 3)
                sizes = [int(size) if size.isdigit() else size for size in shape.strip("[]").split(",") if size]
                self.inputs[function].append([name, dtype, sizes])
            else:
                fields[key] = value
        self.tvm_version, self.device, self.pipeline = fields["tvm"], fields["device"], fields["pipeline"]

    def _read_sums(self) -> dict[str, str]:
        path = self.folder / SUMS
        try:
            lines = path.read_bytes().decode().splitlines()
        except FileNotFoundError:
            raise DeploymentError(f"{path} is missing; {BUILD_AGAIN}.") from None
        except OSError as error:
            raise DeploymentError(f"{path} cannot be read ({error.strerror}); {BUILD_AGAIN}.") from None
        except ValueError:
            raise DeploymentError(f"{path} is damaged; {BUILD_AGAIN}.") from None
        return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}

    def function(self, name: str) -> list[Any]:
        """Return the inputs of an entry function."""
        if name not in self.inputs:
            raise DeploymentError(f"{self.folder} has no function `{name}`; it has {', '.join(self.inputs)}.")
        return self.inputs[name]

    def path(self, name: str) -> Path:
        """Return the path of a file, once it has been compared with its digest."""
        path = self.folder / name
        if name not in self._sums:
            raise DeploymentError(f"{self.folder / SUMS} has no digest of {name}; {BUILD_AGAIN}.")
        require(path, self._sums[name], BUILD_AGAIN)
        return path

    def has(self, name: str) -> bool:
        """Return whether a file is there or was when the folder was built; ``path`` refuses a file that was not."""
        return name in self._sums or (self.folder / name).exists()


def write_conditions(
    folder: Path, *, tvm_version: str, device: str, processor: list[str], inputs: dict[str, list[Any]]
) -> None:
    """Write what a build needs where it runs; see ``Built``."""
    lines = [f"tvm {tvm_version}", f"device {device}", f"pipeline {sha256(HERE / PIPELINE)}"]
    lines.append(" ".join(["processor", *processor]))
    for function, types in inputs.items():
        lines.append(f"function {function}")
        for name, dtype, shape in types:
            lines.append(f"input {function} {dtype} [{','.join(map(str, shape))}] {name}")
    (folder / CONDITIONS).write_text("\n".join([*lines, ""]), encoding="utf-8")


def run_script(module: str, suffix: str) -> None:
    """Check the files, import a module beside this one, and call its ``main`` with the pipeline file's content.

    Every fault ends in one line on standard error and the exit status 1.
    """
    try:
        record = check_export(suffix=suffix)
        main = _import(module, record).main
        main(record)
    except DeploymentError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the outermost function of a program
        sys.exit(f"{last_line(error)}. {_write_traceback()}")


def _import(module: str, record: Any) -> Any:
    try:
        return importlib.import_module(module)
    except (ImportError, AttributeError, RuntimeError, OSError, ValueError) as error:
        if isinstance(error, DeploymentError):
            raise
        version = getattr(sys.modules.get("tvm"), "__version__", None)
        raise DeploymentError(
            f"{sys.executable} has {f'TVM {version}' if version else 'no TVM that loads'}, and this folder needs TVM "
            f"{record['tvm_version']} with {record['dialect'].capitalize()} ({last_line(error)}); use an interpreter "
            "that has it."
        ) from None


def last_line(error: BaseException) -> str:
    """Return one line of an error. TVM's messages begin with the call stack of its library."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].rstrip('.')[:300]}" if lines else type(error).__name__


def _write_traceback() -> str:
    """Write the traceback of the current exception to a file; return a sentence that names it."""
    with contextlib.suppress(OSError):
        descriptor, name = tempfile.mkstemp(prefix="deployment-", suffix=".txt")
        with os.fdopen(descriptor, "w") as file:
            file.write(traceback.format_exc())
        return f"The traceback is in {name}"
    return "There is no room for its traceback."
