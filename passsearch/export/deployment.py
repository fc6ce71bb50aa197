"""Deployment folders: the pipeline file, the network, the sources of passes that are not TVM's, and a script."""

import ast
import importlib.util
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

from passsearch.core import PassSpec, printable
from passsearch.errors import UserError
from passsearch.export.readme import CONTAINER, README, REQUIREMENTS, container_file, readme
from passsearch.export.record import PIPELINE, SCHEMA, Deployment, read_record
from passsearch.standalone.deployment.checked_files import own_digest, sha256
from passsearch.store import NETWORK, write_json

SCRIPT, ARTIFACT_FOLDER, LOADER = "build_model.py", "built", "run_model"
"""Names in a deployment folder: the script, the folder it writes the build to, and the compiled C++ loader."""

COMPILATION = "compilation.json"
"""What ``compile`` has found out of the network; the script does not read it."""

FOLDERS = "folders"
"""Folder with copies of the files and folders among the arguments of passes."""

COMPILERS = ("tvm", "tvm_ffi")
"""Top-level modules of the compiler."""

UNKNOWN = "0" * 64
"""Stands for a digest that is not known yet."""

_AVAILABLE_MODULES = frozenset({*COMPILERS, "numpy", *sys.stdlib_module_names})
"""Top-level modules that every interpreter with a TVM has, so a pass may import them."""

_log = logging.getLogger(__name__)


def write_deployment(
    folder: Path, deployment: Deployment, *, complete: Callable[[Path], None] = lambda folder: None
) -> Path:
    """Write a folder that rebuilds the network with TVM and numpy alone, and replace an earlier export.

    The folder is written completely or not at all.

    Args:
        folder: The folder.
        deployment: What it rebuilds.
        complete: Gets the new folder, still beside its place; its error leaves an earlier export as it was.

    Returns:
        The absolute path of the folder.

    Raises:
        UserError: The folder has other files, is of another network or cannot be written, or the source of a pass
            cannot be exported.
    """
    folder = folder.resolve()
    _log.info("exporting %s to %s", deployment.pipeline, folder)
    check_replaceable(folder, network=str(deployment.model.get("sha256") or ""))
    sources = _find_sources(deployment)
    with partial_folder(folder) as partial:
        partial.mkdir(parents=True)
        _write_files(partial, deployment, sources=sources)
        complete(partial)
        move_into_place(partial, folder)
    return folder


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Yield the name of a folder that becomes ``folder``; what is left of it is deleted afterwards."""
    # Beside the folder, not in the system's temporary folder: a rename works only within one file system.
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        yield partial
    except OSError as error:
        # The folder that becomes the export has a name that says nothing to the user.
        file = str(error.filename or "").replace(str(partial), str(folder))
        file = f" (`{file}`)" if file not in ("", str(folder)) else ""
        raise UserError(
            f"Cannot export to `{folder}`: {error.strerror or error}{file}; choose another with --to."
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@dataclass(frozen=True)
class _Source:
    """A module that is copied into the folder.

    Attributes:
        path: The file of the module, or the folder of a package.
        name: Name of the copy.
    """

    path: Path
    name: str

    @property
    def files(self) -> list[Path]:
        """The Python files of the module."""
        return sorted(self.path.rglob("*.py")) if self.path.is_dir() else [self.path]

    def copy_to(self, folder: Path) -> None:
        """Copy the files into a folder."""
        for file in self.files:
            copy = folder / self.name / file.relative_to(self.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)


def _find_sources(deployment: Deployment) -> dict[str, _Source]:
    """Return, by module, the sources of passes that do not come with the compiler."""
    sources: dict[str, _Source] = {}
    for step in deployment.pipeline.passes:
        module = deployment.factories[step.name].partition(":")[0]
        if module.partition(".")[0] in COMPILERS or module in sources:
            continue
        present = {*(source.name for source in sources.values()), *(file.name for file in deployment.dialect.script)}
        path = _find_source(module, deployment.import_paths)
        sources[module] = _Source(path, _copy_name(module, path.suffix, present))
        _check_self_contained(sources[module], step)
        _log.debug("pass %s: %s is copied as %s", step.name, sources[module].path, sources[module].name)
    return sources


def _copy_name(module: str, suffix: str, present: Set[str]) -> str:
    """Return the file name of a module's copy; a package has no suffix."""
    stem = module.rpartition(".")[2]
    # The script's folder comes first on its import path: a copy called `json.py` would hide the standard library's.
    taken = _AVAILABLE_MODULES | {ARTIFACT_FOLDER, FOLDERS, *(name.removesuffix(".py") for name in present)}
    if stem in taken:
        stem = module.replace(".", "_") if "." in module else f"pass_{module}"
    return stem + suffix


def _find_source(module: str, import_paths: Sequence[str]) -> Path:
    """Return the file of a module, or the folder of a package, without importing it."""
    # An import would run the module and its packages, and those may need the compiler, which is not installed here.
    root, *rest = module.split(".")
    spec = PathFinder.find_spec(root, [*import_paths]) or importlib.util.find_spec(root)
    for name in rest:
        spec = _find_submodule(spec, name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UserError(
            f"Cannot export the pass module `{module}`: its source file was not found. "
            "Put its folder on the import path."
        )
    file = Path(spec.origin)
    return file.parent if file.name == "__init__.py" else file


def _find_submodule(package: ModuleSpec | None, name: str) -> ModuleSpec | None:
    if package is None or package.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, [*package.submodule_search_locations])


def _check_self_contained(source: _Source, step: PassSpec) -> None:
    """Raise an error if a pass cannot be loaded where only TVM and numpy are installed."""
    for file in source.files:
        # A package may import its own files, which are copied with it.
        depth = len(file.relative_to(source.path).parts)
        for module in _imports(ast.parse(file.read_bytes()), depth=depth):
            if module not in _AVAILABLE_MODULES:
                raise UserError(
                    f"Cannot export pass `{step.name}`: its file `{file}` imports `{module}`, and only TVM, numpy "
                    "and the standard library are allowed. Move the pass to a file that imports only these, or to a "
                    "package whose files import each other by relative imports and which the catalog's factory names."
                )


def _imports(tree: ast.Module, *, depth: int) -> Iterator[str]:
    """Yield the top-level modules that a module imports when it is loaded; ``.`` stands for one that is not copied.

    Args:
        tree: The module.
        depth: Number of packages around the module that are copied with it.
    """
    # Imports inside functions are not followed: they run only when the function does, and often never.
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and statement.level == 0:
            yield str(statement.module).partition(".")[0]
        elif isinstance(statement, ast.ImportFrom) and statement.level > depth:
            yield "."


def _record(deployment: Deployment, sources: Mapping[str, _Source]) -> dict[str, Any]:
    """Return the content of the pipeline file; the longest part comes last, so that a reader sees the rest first."""
    support_files = [file.name for file in deployment.dialect.script[1:]]
    files = [PIPELINE, SCRIPT, NETWORK, *support_files, *(source.name for source in sources.values())]
    # Written down whether or not there are any: they are what an export may have written, and what the next replaces.
    files += [README, CONTAINER, REQUIREMENTS, FOLDERS, COMPILATION]
    return {
        "schema": SCHEMA,
        "dialect": deployment.dialect.name,
        "tvm_version": deployment.tvm_version,
        "tvm_commit": deployment.tvm_commit or None,
        "target": deployment.target,
        "model": dict(deployment.model),
        "inputs": dict(deployment.inputs),
        "ranges": dict(deployment.ranges),
        **({"calls": [dict(call) for call in deployment.calls]} if deployment.calls else {}),
        "passes": _pass_records(deployment, sources),
        "build": deployment.build.to_json(),
        "states": list(deployment.ir_hashes),
        "files": files,
        "tolerance": deployment.tolerance,
        "mean_tolerance": deployment.mean_tolerance,
        "seed": deployment.seed,
        **({"reference": dict(deployment.reference)} if deployment.reference else {}),
        **({"bits": dict(deployment.bits)} if deployment.bits else {}),
        **({"same_bits": deployment.same_bits} if deployment.same_bits else {}),
        **({"form": dict(deployment.form)} if deployment.form else {}),
        **({"sizes": dict(deployment.sizes)} if deployment.sizes else {}),
        "expected": [dict(digest) for digest in deployment.output_digests],
    }


def _summary(deployment: Deployment) -> list[str]:
    """Return the comment lines at the head of the script."""
    steps = deployment.pipeline.passes
    lines = [
        f"Network: {deployment.title}",
        f"Target: {deployment.target}",
        f"TVM: {deployment.tvm_version}",
        "Passes: " + ("none" if not steps else ", then ".join(map(str, steps))),
        f"Build: TVM's own pipeline at {deployment.build.text}",
    ]
    # A line break in a name would end the comment, and the rest of the name would run as code.
    return [printable(" ".join(line.split())) for line in lines]


def _pass_records(deployment: Deployment, sources: Mapping[str, _Source]) -> list[dict[str, Any]]:
    records = []
    for place, step in enumerate(deployment.pipeline.passes, start=1):
        factory = deployment.factories[step.name]
        source = sources.get(factory.partition(":")[0])
        file = source.name if source else None
        record = {"name": step.name, "arguments": step.argument_values, "factory": factory, "file": file}
        copies = _folder_copies(step, place)
        records.append({**record, **({"folders": copies} if copies else {})})
    return records


def _folder_copies(step: PassSpec, place: int) -> dict[str, str]:
    """Return where the files and folders among a pass's arguments are copied to, by name of the argument."""
    # A tuning database, for example; it must be there wherever the folder is built.
    arguments = step.argument_values
    copies = {}
    for name, value in arguments.items():
        if not isinstance(value, str) or not value.startswith("/"):
            continue
        if not Path(value).exists():
            raise UserError(f"`{step.name}` needs `{value}`, which is not on this machine; export where it is.")
        copies[name] = f"{FOLDERS}/{place}-{name}" + ("" if Path(value).is_dir() else Path(value).suffix)
    return copies


def _write_files(folder: Path, deployment: Deployment, *, sources: Mapping[str, _Source]) -> None:
    assert len(deployment.ir_hashes) == len(deployment.pipeline) + 1
    script, *support_files = deployment.dialect.script
    write_json(folder / PIPELINE, _record(deployment, sources))
    # The first line is fixed: Python reads a file's encoding from its first two comments (PEP 263), and a name with
    # `coding: utf_7` in it could turn a comment into code.
    head = ["-*- coding: utf-8 -*-", *_summary(deployment)]
    text = "".join(f"# {line}\n" for line in head) + script.read_text(encoding="utf-8")
    (folder / SCRIPT).write_text(text, encoding="utf-8")
    for file in support_files:
        shutil.copyfile(file, folder / file.name)
    shutil.copyfile(deployment.network, folder / NETWORK)
    for source in sources.values():
        source.copy_to(folder)
    for place, step in enumerate(deployment.pipeline.passes, start=1):
        for name, copy in _folder_copies(step, place).items():
            original = Path(str(step.argument_values[name]))
            (folder / copy).parent.mkdir(exist_ok=True)
            (shutil.copytree if original.is_dir() else shutil.copyfile)(original, folder / copy)
    _write_instructions(folder, deployment)
    _write_digests(folder)


def _write_digests(folder: Path) -> None:
    """Write the SHA-256 of every file into the pipeline file; its own digest counts as zeros in it."""
    path = folder / PIPELINE
    record = json.loads(path.read_text())
    digests = {name: sha256(folder / name) for name in record["sha256"] if name != PIPELINE}
    write_json(path, {**record, "sha256": {**record["sha256"], **digests}})
    content = path.read_bytes()
    path.write_bytes(content.replace(UNKNOWN.encode(), own_digest(content, UNKNOWN).encode(), 1))


def _write_instructions(folder: Path, deployment: Deployment) -> None:
    """Write the container file, where there is one, and the README, which lists all files with their sizes."""
    container = container_file(deployment)
    if container is not None:
        for name, content in zip((CONTAINER, REQUIREMENTS), container, strict=True):
            (folder / name).write_text(content, encoding="utf-8")
    names = [file.relative_to(folder).as_posix() for file in sorted(folder.rglob("*")) if file.is_file()]
    record = json.loads((folder / PIPELINE).read_text())
    # The digests get their place now, because the README states the size of the pipeline file.
    write_json(folder / PIPELINE, {**record, "sha256": dict.fromkeys([*names, README], UNKNOWN)})
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in folder.rglob("*") if file.is_file()}
    text = readme(deployment, files=sizes, has_container=container is not None)
    (folder / README).write_text(text, encoding="utf-8")


def check_replaceable(folder: Path, *, network: str = "") -> None:
    """Refuse a folder that cannot be written, or has a file that neither an earlier export nor its script has written.

    Args:
        folder: The folder.
        network: SHA-256 of the network, by which an export of another one is refused; empty to overlook that.

    Raises:
        UserError: The folder cannot be written or replaced.
    """
    _check_writable(folder.resolve())
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"`{folder}` is a file; a folder is needed. Choose another with --to.")
    if Path.cwd().is_relative_to(folder.resolve()):
        # It is replaced as a whole, so the shell would be left in a folder that is deleted.
        raise UserError(f"`{folder}` holds the working folder; export from another one, or choose another with --to.")
    present = {entry.name for entry in folder.iterdir()}
    if not present:
        return
    try:
        record = read_record(folder / PIPELINE)
    except UserError:
        raise UserError(f"`{folder}` is neither empty nor an earlier export; choose another with --to.") from None
    # `__pycache__` is there once the script has run, because it imports the files beside it. The README says to compile
    # the loader there.
    exported = {ARTIFACT_FOLDER, "__pycache__", LOADER, *map(str, record.get("files", []))}
    others = sorted(present - exported)
    if others:
        raise UserError(
            f"`{folder}` is an earlier export, but `{others[0]}` in it is not part of one; "
            "move it away or choose another folder with --to."
        )
    model = record.get("model")
    earlier = model if isinstance(model, dict) else {}
    if network and earlier.get("sha256", network) != network:
        raise UserError(
            f"The deployment `{folder}` is of another network or of other sizes (`{earlier.get('source')}`); choose "
            "another folder with --to."
        )


def _check_writable(folder: Path) -> None:
    """Refuse a folder whose place takes no new folder."""
    place = folder.parent
    try:
        place = next((parent for parent in folder.parents if parent.exists()), folder)
        # By trial: permissions say nothing of a file system that is read-only or of the system's own.
        Path(tempfile.mkdtemp(prefix=".passsearch-", dir=place)).rmdir()
    except OSError as error:
        raise UserError(
            f"`{folder}` cannot be made: nothing can be written in `{place}` ({error.strerror}); choose another folder "
            "with --to."
        ) from None


def move_into_place(partial: Path, folder: Path) -> None:
    """Rename the new folder; an earlier export is restored if that fails."""
    if not folder.exists():
        partial.rename(folder)
        return
    earlier = partial.with_suffix(".earlier")
    folder.rename(earlier)
    try:
        partial.rename(folder)
    except BaseException:  # Ctrl-C, too
        earlier.rename(folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
    _log.info("replaced the earlier export in %s", folder)
