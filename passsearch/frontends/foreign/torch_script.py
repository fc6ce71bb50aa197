"""Code in archives of TorchScript: the operators that its methods call, and the classes in its pickles.

Methods ``__setstate__`` run while a file is loaded, ``forward`` when the network is proven. Names are resolved as in
PyTorch's ``source_importer.cpp``: ``torch.x`` and ``ops.namespace.x`` are operators, and so is a method of a tensor.
"""

import ast
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from passsearch.core import archive_texts, check_archive, check_one_root
from passsearch.frontends.foreign.operators import torch_operators
from passsearch.frontends.foreign.torch_pickle import in_pickle

_NAMESPACES = frozenset({"aten", "prim", "quantized", "torchvision"})
_FUNCTIONS = frozenset(
    {"abs", "all", "annotate", "any", "bool", "chr", "complex", "dict", "divmod", "enumerate", "float", "getattr"}
    | {"hasattr", "hash", "hex", "int", "isinstance", "len", "list", "max", "min", "oct", "ord", "pow", "range"}
    | {"rangelist", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "unchecked_cast"}
    | {"unchecked_unwrap_optional", "uninitialized", "zip"}
)
"""TorchScript's own functions."""

_FILE_METHODS = frozenset({"save", "load", "from_file"})
"""Operators of PyTorch that open files. A method of such a name cannot be told from the operator of a tensor."""

_ROOTS = frozenset({"torch", "ops"})
_ENTRIES = (
    r"[^/]+/(version|byteorder|\.data/\w+|\.format_version|\.storage_alignment|(data|constants|bytecode|traced_inputs)\.pkl"
    r"|(data|constants|traced_inputs)/\d+|code/[\w./]+\.(py|debug_pkl)|extra/.*)"
)


def in_script(path: Path) -> Iterator[str]:
    """Yield what the code and the pickles of an archive may run."""
    unfit = [*check_archive(path, _ENTRIES), *check_one_root(path)]
    yield from unfit
    if unfit:
        return
    # Decoded, because Python follows a line that names an encoding, and TorchScript does not.
    trees = [ast.parse(content.decode()) for _, content in archive_texts(path, ".py")]
    methods = {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    yield from (f"a method `{name}`" for name in sorted(methods & _FILE_METHODS))
    for tree in trees:
        yield from _in_tree(tree, methods)
    sizes = _record_sizes(path)
    for name, content in archive_texts(path, ".pkl"):
        if not name.endswith("/traced_inputs.pkl"):  # which is not loaded, and lacks its tensors
            yield from in_pickle(content, name, sizes=sizes)


def _record_sizes(path: Path) -> dict[str, int]:
    with zipfile.ZipFile(path) as archive:
        return {entry.filename: entry.file_size for entry in archive.infolist()}


def _in_tree(tree: ast.AST, methods: set[str]) -> Iterator[str]:
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    # A class or function of the file is called by a local name.
    local = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            yield from _in_name(_names(node))
        elif isinstance(node, ast.Name) and node.id in _ROOTS and id(node) not in inner:
            yield f"`{node.id}` as a value"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _in_method(node.func, methods)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from (f"a function `{name}`" for name in {node.func.id} - _FUNCTIONS - local)


def _names(node: ast.expr) -> list[str]:
    """Return the names of an attribute from the left; the first is empty if it is no name."""
    if isinstance(node, ast.Attribute):
        return [*_names(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def _in_name(names: Sequence[str]) -> Iterator[str]:
    """Yield an operator that is not allowed, whether it is called or made a value."""
    text = ".".join(names)
    if names[0] == "torch" and not (len(names) == 2 and names[1] in torch_operators()):
        yield f"operator `{text}`"
    if names[0] == "ops":
        known = len(names) == 3 and names[1] in _NAMESPACES and names[2] in torch_operators()
        if not known:
            yield f"operator `{text}`"


def _in_method(function: ast.Attribute, methods: set[str]) -> Iterator[str]:
    root = _names(function)[0]
    if root not in {*_ROOTS, "__torch__"} and function.attr not in methods:
        yield f"a method `{function.attr}` that it does not define"
