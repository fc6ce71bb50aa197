"""Deployment folders: pipeline file, network, the sources of passes that are not TVM's, and a script."""

import ast
import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any, TypeVar

from passsearch.core import BuildOptions, Json, Pipeline
from passsearch.dialects import Dialect, dialect
from passsearch.errors import UserError
from passsearch.store import NETWORK, write_json

SCHEMA = "passsearch-pipeline/1"
PIPELINE, SCRIPT, BUILT = "pipeline.json", "build_model.py", "built"
COMPILERS = ("tvm", "tvm_ffi")

_PROVIDED = frozenset({*COMPILERS, "numpy", *sys.stdlib_module_names})
_WORDS = {str: "a text", dict: "a mapping", list: "a list", int: "an integer"}
_Kind = TypeVar("_Kind", str, dict[str, Any], list[Any], int)


@dataclass(frozen=True)
class Deployment:
    """Everything that building a network with one pipeline depends on, and what must come out.

    Attributes:
        dialect: The IR the pipeline is for.
        tvm_version: Of the compiler it was found with.
        target: The compiler's target.
        pipeline: Passes in order.
        factories: ``module:function`` by pass name, for every pass of the pipeline.
        build: Options of the build after the pipeline.
        network: The imported network's IR as a worker saved it.
        model: ``name``, ``source``, ``sha256`` and ``batch``.
        inputs: ``[shape, dtype]`` by input name, in order.
        states: IR hashes: of the network, then after every pass.
        expected: Digest of each output (``passsearch.measure.outputs.digest``) on the inputs of ``seed``.
        tolerance: How far outputs may deviate, as a share of the largest magnitude.
        seed: Of the inputs (``passsearch.dialects.contract.random_inputs``).
        tvm_commit: Of the compiler, empty if it does not tell.
        paths: Import paths beside this interpreter's own where the user's passes are.
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
    states: Sequence[str]
    expected: Sequence[Mapping[str, Json]]
    tolerance: float
    seed: int = 0
    tvm_commit: str = ""
    paths: tuple[str, ...] = ()


def write_deployment(folder: Path, deployment: Deployment) -> Path:
    """Write a folder that needs TVM and numpy only, whole or not at all; an earlier export is replaced.

    Returns:
        The folder, absolute.

    Raises:
        UserError: The folder holds something else or cannot be written, or a pass cannot be taken along.
    """
    folder = folder.resolve()
    _check_replaceable(folder)
    sources = dict(_sources(deployment))
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        _fill(partial, deployment, sources=sources)
        _put_in_place(partial, folder)
    except OSError as error:
        at = f" (`{error.filename}`)" if error.filename else ""
        reason = f"{error.strerror}{at}"
        raise UserError(f"Cannot export to `{folder}`: {reason}; choose another with --to.") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def read_pipeline(path: Path) -> Deployment:
    """Read a pipeline file, or the one of an exported folder.

    ``network`` is where the exported network stands beside the file, whether or not it is there.

    Raises:
        UserError: There is no such file, it is of another schema, or a key is missing or of the wrong kind.
    """
    path = path / PIPELINE if path.is_dir() else path
    fields = _Fields(path, _read_record(path))
    steps = [_Fields(path, step, f"passes[{index}].") for index, step in enumerate(fields.items("passes"))]
    states = [str(state) for state in fields.take("states", list)]
    if len(states) != len(steps) + 1:
        raise UserError(
            f"Pipeline file `{path}`: `states` holds {len(states)} hashes; {len(steps)} passes need {len(steps) + 1}."
        )
    return Deployment(
        dialect=dialect(fields.take("dialect", str)),
        tvm_version=fields.take("tvm_version", str),
        target=fields.take("target", str),
        pipeline=Pipeline.from_json([_named_step(step) for step in steps]),
        factories={step.take("name", str): step.take("factory", str) for step in steps},
        build=_build_options(_Fields(path, fields.take("build", dict), "build.")),
        network=path.with_name(NETWORK),
        model=fields.take("model", dict),
        inputs=fields.take("inputs", dict),
        states=tuple(states),
        expected=tuple(fields.items("expected")),
        tolerance=fields.number("tolerance"),
        seed=fields.take("seed", int),
        tvm_commit=str(fields.values.get("tvm_commit") or ""),
    )


@dataclass(frozen=True)
class _Source:
    """A module that is taken along: its file, and the name it gets in the folder."""

    path: Path
    name: str


def _sources(deployment: Deployment) -> Iterator[tuple[str, _Source]]:
    """The modules of passes that do not come with the compiler."""
    taken: dict[str, str] = {}
    for step in deployment.pipeline.passes:
        module = deployment.factories[step.name].partition(":")[0]
        if module.partition(".")[0] in COMPILERS or module in taken:
            continue
        stem = module.rpartition(".")[2]
        beside = [each.name for each in deployment.dialect.script]
        unclear = stem in _PROVIDED or f"{stem}.py" in (*taken.values(), *beside)
        taken[module] = (module.replace(".", "_") if unclear else stem) + ".py"
        source = _Source(_find_source(module, deployment.paths), taken[module])
        _check_self_contained(source.path, step.name)
        yield module, source


def _find_source(module: str, paths: Sequence[str]) -> Path:
    """A module's file, found without importing anything: it may import the compiler, its package too."""
    root, *rest = module.split(".")
    spec = PathFinder.find_spec(root, [*paths]) or importlib.util.find_spec(root)
    for name in rest:
        spec = _find_inside(spec, name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise UserError(
            f"Cannot export the pass module `{module}`: no source file of it is found. "
            "Put its folder on the import path."
        )
    return Path(spec.origin)


def _find_inside(package: ModuleSpec | None, name: str) -> ModuleSpec | None:
    if package is None or package.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, [*package.submodule_search_locations])


def _check_self_contained(source: Path, name: str) -> None:
    for imported in _imports(ast.parse(source.read_bytes())):
        if imported not in _PROVIDED:
            raise UserError(
                f"Cannot export pass `{name}`: its file `{source}` imports `{imported}`, and only TVM, numpy "
                "and the standard library are allowed. Move the pass to a file that needs no more."
            )


def _imports(tree: ast.Module) -> Iterator[str]:
    """Top-level names a module cannot be loaded without; ``.`` for its own package."""
    for statement in tree.body:
        if isinstance(statement, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            yield "." if statement.level else str(statement.module).partition(".")[0]


def _record(deployment: Deployment, sources: Mapping[str, _Source]) -> dict[str, Any]:
    """The pipeline file's content, the long part last."""
    beside = [each.name for each in deployment.dialect.script[1:]]
    files = [PIPELINE, SCRIPT, NETWORK, *beside, *(source.name for source in sources.values())]
    return {
        "schema": SCHEMA,
        "dialect": deployment.dialect.name,
        "tvm_version": deployment.tvm_version,
        "tvm_commit": deployment.tvm_commit or None,
        "target": deployment.target,
        "model": dict(deployment.model),
        "inputs": dict(deployment.inputs),
        "passes": _steps(deployment, sources),
        "build": deployment.build.to_json(),
        "states": list(deployment.states),
        "files": files,
        "tolerance": deployment.tolerance,
        "seed": deployment.seed,
        "expected": [dict(digest) for digest in deployment.expected],
    }


def _summary(deployment: Deployment) -> list[str]:
    """What the script builds, for who opens it."""
    model, steps = deployment.model, deployment.pipeline.passes
    lines = [
        f"Network: {model.get('name')}, batch {model.get('batch')}",
        f"Target: {deployment.target}",
        f"TVM: {deployment.tvm_version}",
        "Passes: " + ("none" if not steps else ", then ".join(map(str, steps))),
        f"Build: TVM's own pipeline at opt_level {deployment.build.opt_level}",
    ]
    return [" ".join(line.split()) for line in lines]


def _steps(deployment: Deployment, sources: Mapping[str, _Source]) -> list[dict[str, Any]]:
    steps = []
    for step in deployment.pipeline.passes:
        factory = deployment.factories[step.name]
        source = sources.get(factory.partition(":")[0])
        file = source.name if source else None
        steps.append({"name": step.name, "arguments": step.bound, "factory": factory, "file": file})
    return steps


def _fill(folder: Path, deployment: Deployment, *, sources: Mapping[str, _Source]) -> None:
    assert len(deployment.states) == len(deployment.pipeline) + 1
    record = _record(deployment, sources)
    script, *beside = deployment.dialect.script
    write_json(folder / PIPELINE, record)
    (folder / SCRIPT).write_text("".join(f"# {line}\n" for line in _summary(deployment)) + script.read_text())
    for each in beside:
        shutil.copyfile(each, folder / each.name)
    shutil.copyfile(deployment.network, folder / NETWORK)
    for source in sources.values():
        shutil.copyfile(source.path, folder / source.name)


def _check_replaceable(folder: Path) -> None:
    """Refuse a folder with anything in it that neither an earlier export nor its script has made."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"`{folder}` is a file; a folder is needed. Choose another with --to.")
    present = {entry.name for entry in folder.iterdir()}
    if not present:
        return
    try:
        exported = {BUILT, "__pycache__", *map(str, _read_record(folder / PIPELINE).get("files", []))}
    except UserError:
        raise UserError(f"`{folder}` is neither empty nor an earlier export; choose another with --to.") from None
    foreign = sorted(present - exported)
    if foreign:
        raise UserError(
            f"`{folder}` is an earlier export, but `{foreign[0]}` in it is not part of one; "
            "move it away or choose another folder with --to."
        )


def _put_in_place(partial: Path, folder: Path) -> None:
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


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_text())
    except OSError as error:
        reason = error.strerror
        raise UserError(f"Cannot read pipeline file `{path}`: {reason}. See: passsearch export") from error
    except ValueError as error:
        raise UserError(f"Pipeline file `{path}` is not JSON: {error}.") from error
    schema = record.get("schema") if isinstance(record, dict) else None
    if schema != SCHEMA:
        raise UserError(f"`{path}` has schema `{schema}`; a pipeline file of this version has `{SCHEMA}`.")
    return dict(record)


@dataclass(frozen=True)
class _Fields:
    """One mapping of a pipeline file; ``prefix`` is the path to it."""

    path: Path
    values: Mapping[str, Any]
    prefix: str = ""

    def take(self, key: str, kind: type[_Kind]) -> _Kind:
        value = self._value(key)
        if not isinstance(value, kind):
            raise self._fault(key, _WORDS[kind])
        return value

    def number(self, key: str) -> float:
        value = self._value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._fault(key, "a number")
        return float(value)

    def items(self, key: str) -> list[dict[str, Any]]:
        """A list of mappings."""
        found = self.take(key, list)
        if not all(isinstance(item, dict) for item in found):
            raise self._fault(key, "a list of mappings")
        return found

    def _value(self, key: str) -> object:
        if key not in self.values:
            raise UserError(f"Pipeline file `{self.path}` lacks `{self.prefix}{key}`; export it again.")
        return self.values[key]

    def _fault(self, key: str, words: str) -> UserError:
        got = str(self.values[key])[:60]
        return UserError(f"Pipeline file `{self.path}`: `{self.prefix}{key}` must be {words}; got `{got}`.")


def _named_step(step: _Fields) -> dict[str, Json]:
    return {"name": step.take("name", str), "arguments": step.take("arguments", dict)}


def _build_options(fields: _Fields) -> BuildOptions:
    return BuildOptions.from_json(
        {
            "opt_level": fields.take("opt_level", int),
            "required": fields.take("required", list),
            "disabled": fields.take("disabled", list),
            "config": fields.take("config", dict),
        }
    )
