"""Deployment folders: the pipeline file, the network, the sources of passes that are not TVM's, and a script."""

import ast
import importlib.util
import json
import logging
import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, TypeVar

from passsearch.core import BuildOptions, Json, Pipeline, printable
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.store import NETWORK, write_json

SCHEMA = "passsearch-pipeline/1"
PIPELINE, SCRIPT, ARTIFACT_FOLDER = "pipeline.json", "build_model.py", "built"
"""Names in a deployment folder: the pipeline file, the script, and the folder the script writes the build to."""

COMPILERS = ("tvm", "tvm_ffi")
"""Top-level modules of the compiler."""

_AVAILABLE_MODULES = frozenset({*COMPILERS, "numpy", *sys.stdlib_module_names})
"""Top-level modules that every interpreter with a TVM has, so a pass may import them."""

_KIND_NAMES = {str: "a text", dict: "a mapping", list: "a list", int: "an integer"}
_Kind = TypeVar("_Kind", str, dict[str, Any], list[Any], int)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deployment:
    """Everything needed to build a network with one pipeline, and the results that prove the build is the same.

    Attributes:
        dialect: The dialect of the network's IR.
        tvm_version: Version of the TVM that the search used.
        target: TVM's target.
        pipeline: Passes in order.
        factories: ``module:function`` that makes the pass, by pass name, for every pass of the pipeline.
        build: Options of the build after the pipeline.
        network: File with the imported network's IR, as a worker saved it.
        model: ``name``, ``source``, ``sha256`` and ``batch`` of the network.
        inputs: ``[shape, dtype]`` by input name, in order.
        ir_hashes: Hash of the network's IR, then of the IR after every pass.
        output_digests: Digest of every output (``passsearch.measure.outputs.digest``) for the inputs made from
            ``seed``.
        tolerance: Largest deviation of an output, as a share of the largest magnitude.
        seed: Seed of the inputs (``passsearch.dialects.contract.random_inputs``).
        tvm_commit: Commit of the TVM, empty if it does not report one.
        import_paths: Folders with the user's passes, searched before this interpreter's own import path.
    """

    dialect: Dialect
    tvm_version: str
    target: str
    pipeline: Pipeline
    factories: Mapping[str, str]
    build: BuildOptions
    network: Path
    model: Mapping[str, Json]
    inputs: Mapping[str, Json]
    ir_hashes: Sequence[str]
    output_digests: Sequence[Mapping[str, Json]]
    tolerance: float
    seed: int = 0
    tvm_commit: str = ""
    import_paths: tuple[str, ...] = ()


def write_deployment(folder: Path, deployment: Deployment) -> Path:
    """Write a folder that rebuilds the network with TVM and numpy alone, and replace an earlier export.

    The folder is written completely or not at all.

    Returns:
        The absolute path of the folder.

    Raises:
        UserError: The folder has other files or cannot be written, or the source of a pass cannot be exported.
    """
    folder = folder.resolve()
    _log.info("exporting %s to %s", deployment.pipeline, folder)
    _check_replaceable(folder)
    sources = _find_sources(deployment)
    # Beside the folder, not in the system's temporary folder: a rename works only within one file system.
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        _write_files(partial, deployment, sources=sources)
        _move_into_place(partial, folder)
    except OSError as error:
        file = f" (`{error.filename}`)" if error.filename else ""
        raise UserError(f"Cannot export to `{folder}`: {error.strerror}{file}; choose another with --to.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def read_pipeline(path: Path) -> Deployment:
    """Read a pipeline file.

    Args:
        path: The file, or an exported folder with one in it.

    Returns:
        The deployment. Its ``network`` is a path beside the file, even if no file is there.

    Raises:
        UserError: The file does not exist or has another schema, or a key is missing or of the wrong kind.
    """
    path = path / PIPELINE if path.is_dir() else path
    fields = _Fields(path, _read_record(path))
    steps = [_Fields(path, step, f"passes[{index}].") for index, step in enumerate(fields.items("passes"))]
    ir_hashes = [str(ir_hash) for ir_hash in fields.typed("states", list)]
    if len(ir_hashes) != len(steps) + 1:
        raise UserError(
            f"Pipeline file `{path}`: `states` holds {len(ir_hashes)} hashes; {len(steps)} passes need "
            f"{len(steps) + 1}. Export it again."
        )
    return Deployment(
        dialect=dialect(fields.typed("dialect", str)),
        tvm_version=fields.typed("tvm_version", str),
        target=fields.typed("target", str),
        pipeline=Pipeline.from_json([_pass_json(step) for step in steps]),
        factories={step.typed("name", str): step.typed("factory", str) for step in steps},
        build=_build_options(_Fields(path, fields.typed("build", dict), "build.")),
        network=path.with_name(NETWORK),
        model=fields.typed("model", dict),
        inputs=fields.typed("inputs", dict),
        ir_hashes=tuple(ir_hashes),
        output_digests=tuple(fields.items("expected")),
        tolerance=fields.number("tolerance"),
        seed=fields.typed("seed", int),
        # Optional: wheels from PyPI do not report the commit they were built from.
        tvm_commit=str(fields.values.get("tvm_commit") or ""),
    )


@dataclass(frozen=True)
class _Source:
    """A module that is copied into the folder.

    Attributes:
        path: The file of the module.
        name: Name of the copy.
    """

    path: Path
    name: str


def _find_sources(deployment: Deployment) -> dict[str, _Source]:
    """Return, by module, the sources of passes that do not come with the compiler."""
    sources: dict[str, _Source] = {}
    for step in deployment.pipeline.passes:
        module = deployment.factories[step.name].partition(":")[0]
        if module.partition(".")[0] in COMPILERS or module in sources:
            continue
        present = {*(source.name for source in sources.values()), *(file.name for file in deployment.dialect.script)}
        sources[module] = _Source(_find_source(module, deployment.import_paths), _copy_name(module, present))
        _check_self_contained(sources[module].path, step.name)
        _log.debug("pass %s: %s is copied as %s", step.name, sources[module].path, sources[module].name)
    return sources


def _copy_name(module: str, present: Collection[str]) -> str:
    """Return the file name of a module's copy."""
    stem = module.rpartition(".")[2]
    # The script's folder comes first on its import path: a copy called `json.py` would hide the standard library's.
    ambiguous = stem in _AVAILABLE_MODULES or f"{stem}.py" in present
    return (module.replace(".", "_") if ambiguous else stem) + ".py"


def _find_source(module: str, import_paths: Sequence[str]) -> Path:
    """Return the file of a module without importing it."""
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
    return Path(spec.origin)


def _find_submodule(package: ModuleSpec | None, name: str) -> ModuleSpec | None:
    if package is None or package.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, [*package.submodule_search_locations])


def _check_self_contained(source: Path, name: str) -> None:
    """Raise an error if a pass cannot be loaded where only TVM and numpy are installed."""
    for module in _imports(ast.parse(source.read_bytes())):
        if module not in _AVAILABLE_MODULES:
            raise UserError(
                f"Cannot export pass `{name}`: its file `{source}` imports `{module}`, and only TVM, numpy "
                "and the standard library are allowed. Move the pass to a file that imports only these."
            )


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level modules that a module imports when it is loaded; ``.`` stands for its own package."""
    # Imports inside functions are not followed: they run only when the function does, and often never.
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield "." if statement.level else str(statement.module).partition(".")[0]


def _record(deployment: Deployment, sources: Mapping[str, _Source]) -> dict[str, Any]:
    """Return the content of the pipeline file; the longest part comes last, so that a reader sees the rest first."""
    support_files = [file.name for file in deployment.dialect.script[1:]]
    files = [PIPELINE, SCRIPT, NETWORK, *support_files, *(source.name for source in sources.values())]
    return {
        "schema": SCHEMA,
        "dialect": deployment.dialect.name,
        "tvm_version": deployment.tvm_version,
        "tvm_commit": deployment.tvm_commit or None,
        "target": deployment.target,
        "model": dict(deployment.model),
        "inputs": dict(deployment.inputs),
        "passes": _pass_records(deployment, sources),
        "build": deployment.build.to_json(),
        "states": list(deployment.ir_hashes),
        "files": files,
        "tolerance": deployment.tolerance,
        "seed": deployment.seed,
        "expected": [dict(digest) for digest in deployment.output_digests],
    }


def _summary(deployment: Deployment) -> list[str]:
    """Return the comment lines at the head of the script."""
    model, steps = deployment.model, deployment.pipeline.passes
    lines = [
        f"Network: {model.get('name')}, batch {model.get('batch')}",
        f"Target: {deployment.target}",
        f"TVM: {deployment.tvm_version}",
        "Passes: " + ("none" if not steps else ", then ".join(map(str, steps))),
        f"Build: TVM's own pipeline at opt_level {deployment.build.opt_level}",
    ]
    # A line break in a name would end the comment, and the rest of the name would run as code.
    return [printable(" ".join(line.split())) for line in lines]


def _pass_records(deployment: Deployment, sources: Mapping[str, _Source]) -> list[dict[str, Any]]:
    records = []
    for step in deployment.pipeline.passes:
        factory = deployment.factories[step.name]
        source = sources.get(factory.partition(":")[0])
        file = source.name if source else None
        records.append({"name": step.name, "arguments": step.argument_values, "factory": factory, "file": file})
    return records


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
        shutil.copyfile(source.path, folder / source.name)


def _check_replaceable(folder: Path) -> None:
    """Raise an error if the folder has a file that neither an earlier export nor its script has written."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"`{folder}` is a file; a folder is needed. Choose another with --to.")
    present = {entry.name for entry in folder.iterdir()}
    if not present:
        return
    try:
        # `__pycache__` is there once the script has run, because it imports the files beside it.
        exported = {ARTIFACT_FOLDER, "__pycache__", *map(str, _read_record(folder / PIPELINE).get("files", []))}
    except UserError:
        raise UserError(f"`{folder}` is neither empty nor an earlier export; choose another with --to.") from None
    others = sorted(present - exported)
    if others:
        raise UserError(
            f"`{folder}` is an earlier export, but `{others[0]}` in it is not part of one; "
            "move it away or choose another folder with --to."
        )


def _move_into_place(partial: Path, folder: Path) -> None:
    """Rename the new folder; an earlier export is restored if that fails."""
    if not folder.exists():
        partial.rename(folder)
        return
    earlier = partial.with_suffix(".earlier")
    folder.rename(earlier)
    try:
        partial.rename(folder)
    except OSError:
        earlier.rename(folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
    _log.info("replaced the earlier export in %s", folder)


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except OSError as error:
        raise UserError(f"Cannot read pipeline file `{path}`: {error.strerror}. See: passsearch export") from error
    # Not JSONDecodeError alone: bytes that are not UTF-8 raise another ValueError.
    except ValueError as error:
        raise UserError(f"Pipeline file `{path}` is not JSON: {error}. Export it again.") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise UserError(f"`{path}` has schema `{schema}`; this version reads `{SCHEMA}`. Export it again.")
    return dict(record)


@dataclass(frozen=True)
class _Fields:
    """Checked access to one mapping of a pipeline file.

    Attributes:
        path: The pipeline file.
        values: The mapping.
        prefix: Position of the mapping in the file, for error messages, for example ``build.``.
    """

    path: Path
    values: Mapping[str, Any]
    prefix: str = ""

    def typed(self, key: str, kind: type[_Kind]) -> _Kind:
        """Return a value, checked to be of a kind."""
        value = self._value(key)
        if not isinstance(value, kind):
            raise self._wrong_kind(key, _KIND_NAMES[kind])
        return value

    def number(self, key: str) -> float:
        """Return a number."""
        value = self._value(key)
        # `True` is an int for Python, but not a number for JSON.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong_kind(key, "a number")
        return float(value)

    def items(self, key: str) -> list[dict[str, Any]]:
        """Return a list of mappings."""
        values = self.typed(key, list)
        if not all(isinstance(value, dict) for value in values):
            raise self._wrong_kind(key, "a list of mappings")
        return values

    def _value(self, key: str) -> object:
        if key not in self.values:
            raise UserError(f"Pipeline file `{self.path}` lacks `{self.prefix}{key}`; export it again.")
        return self.values[key]

    def _wrong_kind(self, key: str, kind: str) -> UserError:
        value = str(self.values[key])[:60]
        return UserError(
            f"Pipeline file `{self.path}`: `{self.prefix}{key}` must be {kind}; got `{value}`. Export it again."
        )


def _pass_json(step: _Fields) -> dict[str, Json]:
    return {"name": step.typed("name", str), "arguments": step.typed("arguments", dict)}


def _build_options(fields: _Fields) -> BuildOptions:
    return BuildOptions.from_json(
        {
            "opt_level": fields.typed("opt_level", int),
            "required": fields.typed("required", list),
            "disabled": fields.typed("disabled", list),
            "config": fields.typed("config", dict),
        }
    )
