"""Code in files of networks, found without opening them by their framework.

Most frameworks run what a file asks for while they load it. These checks name it, so that such a file is refused unless
the user trusts it. Sources are the loaders of the frameworks and their published faults, named beside each rule.
"""

import ast
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

from passsearch.frontends import compiler_module_code, keras_code

Parts: TypeAlias = Iterator[str]

_OPERATORS = {"and", "or", "xor", "lshift", "rshift", "iand", "ior", "ixor", "ilshift", "irshift"}
_TORCH_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|prim|quantized|quantized_decomposed|torchvision|higher_order)"
    r"\.(?P<name>\w+)(\.(?!__)\w+)?|torch\.sym_[a-z_]+|_operator\.(?P<python>\w+)|math\.(?!_)\w+"
)
_PYTHON_OPERATORS = re.compile(
    "add|sub|mul|floordiv|truediv|mod|neg|pow|pos|abs|getitem|eq|ne|lt|le|gt|ge|and_|or_|not_"
)
_FILE_OPERATORS = frozenset({"save", "load", "from_file", "load_library"})
"""Operators of PyTorch that read or write files by name."""

_SCRIPT_CALL = re.compile(r"\btorch\s*\.\s*(save|load|from_file)\b|\bops\s*\.\s*(?!aten\b|prim\b|quantized\b)(\w+)")
_TENSOR_FILE = re.compile(r"(weight|tensor)_\d+")
SAVED_MODEL = "saved_model.pb"
"""Name of the graph in the folder of a TensorFlow SavedModel."""

_GRAPH_WRITERS = ("WriteFile", "PrintV2", "PyFunc", "PyFuncStateless", "EagerPyFunc")
"""TensorFlow's operators that write files or call Python."""


def find_code(path: Path) -> list[str]:
    """Return, in words, everything in a network's file that runs when the file is opened or the network is built."""
    check = _check_of(path)
    if check is None:
        return []
    try:
        return list(dict.fromkeys(check(path)))
    except (ValueError, RecursionError, zipfile.BadZipFile, SyntaxError, NotImplementedError) as error:
        return [f"parts that cannot be checked ({type(error).__name__})"]


def _check_of(path: Path) -> Callable[[Path], Parts] | None:
    if path.is_dir():
        return _in_saved_model if (path / SAVED_MODEL).is_file() else None
    is_archive = zipfile.is_zipfile(path)
    by_ending = {
        ".pt2": _in_exported_program if is_archive else None,  # else the front end refuses it
        ".pt": _in_script if is_archive else None,
        # Keras 2 opens a file of either ending by its content.
        ".keras": keras_code.in_archive if is_archive else keras_code.in_hdf5,
        ".h5": keras_code.in_hdf5,
        "-symbol.json": None,
        ".json": compiler_module_code.in_module,
    }
    # The whole name, as the front ends take it: a file named `.h5` has no suffix.
    return next((check for ending, check in by_ending.items() if path.name.endswith(ending)), None)


def _entries(path: Path, suffix: str) -> Iterator[bytes]:
    """Yield the contents of an archive's entries by the ending of their names; also those that another one hides."""
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            if entry.filename.lower().endswith(suffix):
                yield archive.read(entry)


def _in_exported_program(path: Path) -> Parts:
    for content in _entries(path, ".json"):
        yield from _in_program(json.loads(content))


def _in_program(node: Any) -> Parts:
    """Yield what ``torch.export.load`` would run: it looks operators up by name and evaluates sizes as Python."""
    if isinstance(node, list):
        for item in node:
            yield from _in_program(item)
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "target" and isinstance(value, str) and not _is_operator(value):
            yield f"operator `{value}`"
        # `sympy.sympify` evaluates its text, as sympy's documentation warns.
        if key == "expr_str" and not _is_size(str(value)):
            yield f"Python in a size, `{value}`"
        if key == "path_name" and not _TENSOR_FILE.fullmatch(str(value)):
            yield f"pickled Python in `{value}`"
        if "default_factory_module" in (key, *([value] if isinstance(value, str) and len(value) < 100 else [])):
            yield "an import by name"
        yield from _in_program(value)


def _is_operator(target: str) -> bool:
    match = _TORCH_OPERATOR.fullmatch(target)
    if match is None or match["name"] in _FILE_OPERATORS:
        return False
    if match["python"]:
        return _PYTHON_OPERATORS.fullmatch(match["python"]) is not None
    name = match["name"] or ""
    return not name.startswith("__") or name.strip("_") in _OPERATORS


def _is_size(text: str) -> bool:
    """Return whether a text is an expression of numbers, symbols and functions of sympy, which begin with capitals."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError):
        return False
    return all(map(_is_plain, ast.walk(tree)))


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and re.fullmatch(r"[A-Z][A-Za-z]*", node.func.id) is not None
    if isinstance(node, ast.Name):
        return not node.id.startswith("__")
    if isinstance(node, ast.Constant):
        # A text may be evaluated once more.
        return not isinstance(node.value, str) or re.fullmatch(r"[A-Za-z]\w*", node.value) is not None
    plain = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.keyword, ast.Tuple)
    symbols = (ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context)
    return isinstance(node, (*plain, *symbols))


def _in_script(path: Path) -> Parts:
    """Yield operators of TorchScript that read or write files; methods ``__setstate__`` run while it is loaded."""
    for content in _entries(path, ".py"):
        for match in _SCRIPT_CALL.finditer(content.decode()):
            yield f"operator `{match[0]}`"


def _in_saved_model(path: Path) -> Parts:
    """Yield operators of a SavedModel that write files or call Python; functions of it run while it is loaded."""
    content = (path / SAVED_MODEL).read_bytes()
    for name in _GRAPH_WRITERS:
        # Field 2 of a node is its operator: the tag, the length, the name.
        if b"\x12" + bytes([len(name)]) + name.encode() in content:
            yield f"operator `{name}`"
