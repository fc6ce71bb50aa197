"""Rooms import downwards only, and each foreign library has one importer. Read from the syntax tree."""

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import passsearch
from passsearch.dialects import DIALECTS

ROOT = Path(passsearch.__file__).parent
ROOT_NAME = "passsearch"
STEPS = (
    {"errors", "standalone"},
    {"core"},
    {"results"},
    {"catalog", "analysis", "dialects"},
    {"measure", "store", "frontends", "toolchain"},
    {"worker"},
    {"evaluate", "engines"},
    {"objectives"},
    {"search", "report", "export"},
    {"studies"},
    {"api"},
    {ROOT_NAME},
    {"batch"},
    {"cli"},
    {"__main__"},
)
"""Rooms by step, the lowest first. The package itself loads `api` on first use, so it stands above it."""
IMPORTERS = {
    "tvm": "dialects",
    "optuna": "search",
    "yaml": "catalog",
    "jsonschema": "store",
    "pynvml": "measure",
    "plotly": "report",
    "pandas": "report",
    "torch": "frontends",
    "onnx": "frontends",
    "onnx_ir": "frontends",
    "onnxscript": "frontends",
    "onnxruntime": "engines",
    "openvino": "engines",
    "tensorrt": "engines",
    "jax": "engines",
    "tensorflow": "frontends",
    "mxnet": "frontends",
    "transformers": "frontends",
    "submitit": "batch",
}
# The importer of a dialect reads files where the compiler is: its own front ends want the framework's object.
EXCEPTIONS = {(library, "dialects") for library in ("onnx", "torch", "tensorflow", "mxnet")}
# PyTorch is also an engine; its adapter runs the operators of an ONNX file.
EXCEPTIONS |= {("torch", "engines"), ("onnx", "engines")}
# Whoever loads a quantised program needs operators that PyTorch registers late.
EXCEPTIONS |= {("torch", "core")}
# Own passes and deployments use the compiler where passsearch is not installed.
EXCEPTIONS |= {("tvm", "standalone")}
# A release of TVM is also an engine.
EXCEPTIONS |= {("tvm", "engines")}
# The scripts of reproductions run beside it, where passsearch may be missing.
EXCEPTIONS |= {("onnxruntime", "dialects")}
# ONNX Runtime is an engine, and the runtime that ONNX files are proven against.
EXCEPTIONS |= {("onnxruntime", "frontends")}


def _files() -> list[Path]:
    return sorted(path for path in ROOT.rglob("*.py") if "__pycache__" not in path.parts)


def _room(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return ROOT_NAME if first == "__init__" else first


@cache
def _imports(path: Path) -> tuple[str, ...]:
    return tuple(_imported_names(ast.parse(path.read_text())))


def _imported_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            yield from (each.value for each in node.args if isinstance(each, ast.Constant))


def _step(room: str) -> int:
    return next(number for number, rooms in enumerate(STEPS) if room in rooms)


def _goes_down(path: Path, name: str) -> bool:
    room, (package, _, inner) = _room(path), name.partition(".")
    imported = inner.partition(".")[0] or ROOT_NAME
    return package != ROOT_NAME or imported == room or _step(imported) < _step(room)


def test_imports_go_downwards() -> None:
    pairs = [(path, name) for path in _files() for name in _imports(path)]
    assert [f"{path.relative_to(ROOT)} imports {name}" for path, name in pairs if not _goes_down(path, name)] == []


def test_foreign_libraries_have_one_importer() -> None:
    for path in _files():
        for name in _imports(path):
            library = name.split(".")[0]
            owner = IMPORTERS.get(library)
            allowed = owner in (None, _room(path)) or (library, _room(path)) in EXCEPTIONS
            assert allowed, f"{path.relative_to(ROOT)} imports {library}; only {owner}/ may"


def test_what_runs_without_passsearch_needs_a_compiler_only() -> None:
    # In an exported folder these files lie side by side.
    beside = {file.stem for file in (ROOT / "standalone").glob("**/deployment/*.py")}
    allowed = {*sys.stdlib_module_names, "numpy", "tvm", "tvm_ffi", "cuda", *beside}
    for path in sorted((ROOT / "standalone").rglob("*.py")):
        _check_standalone(path, allowed)


def _check_standalone(path: Path, allowed: set[str]) -> None:
    # TVM 0.27 needs Python 3.10, earlier ones run on 3.8.
    is_of_relax = "relax" in path.parts and "deployment" not in path.parts
    tree = ast.parse(path.read_text(), feature_version=(3, 10) if is_of_relax else (3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and not node.level}
    assert {name.partition(".")[0] for name in names} <= allowed, path
    # An export copies a file of `graph_rewrites` alone, and a package as a whole.
    most = 0 if path.parent.name == "graph_rewrites" else 1
    assert all(node.level <= most for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)), path


def test_dialects_are_named_only_in_their_room() -> None:
    own_engine = ROOT / "engines" / "adapters" / "tvm.py"
    for path in _files():
        if _room(path) in ("dialects", "standalone") or path == own_engine:
            continue
        words = set(path.read_text().lower().replace("_", " ").replace("`", " ").replace('"', " ").split())
        assert not words & {*DIALECTS, "relax"}, f"{path.relative_to(ROOT)} names a dialect"


def test_every_exported_name_exists() -> None:
    import importlib

    # Packages inside a dialect import its compiler; ruff finds what they export and do not have.
    for init in (each for each in ROOT.rglob("__init__.py") if not {*DIALECTS} & {*each.parent.parent.parts}):
        name = ".".join(["passsearch", *init.parent.relative_to(ROOT).parts])
        module = importlib.import_module(name)
        for exported in getattr(module, "__all__", ()):
            assert hasattr(module, exported), f"{name}.{exported}"


def test_import_loads_nothing_heavy() -> None:
    heavy = (
        *("numpy", "optuna", "scipy", "networkx", "yaml", "onnx", "tvm", "torch", "tensorflow", "mxnet"),
        *("transformers", "rich", "typer", "submitit", "plotly", "pandas"),
    )
    code = f"import sys, passsearch; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_worker_needs_the_standard_library_and_numpy_only() -> None:
    absent = ("psutil", "scipy", "optuna", "networkx", "yaml", "onnx", "filelock", "platformdirs", "archspec", "typer")
    modules = "passsearch.worker.server, passsearch.engines.worker, passsearch.engines.artifact"
    code = f"import sys; sys.modules.update(dict.fromkeys({absent!r})); import {modules}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_imports_where_tvm_cannot() -> None:
    code = "import sys; sys.modules['tvm'] = None; import passsearch.api, passsearch.cli"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_files_of_tests_have_names_of_their_own() -> None:
    # pytest imports them by these alone, and does not collect the second of a name.
    names = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
