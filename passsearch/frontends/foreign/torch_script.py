"""Code in archives of TorchScript: the operators that its methods call, and the classes in its pickles.

Methods ``__setstate__`` run while a file is loaded, ``forward`` when the network is proven. Names are resolved as in
PyTorch's ``source_importer.cpp``: ``torch.x`` and ``ops.namespace.x`` are operators, and so is a method of a tensor.
"""

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from passsearch.core import archive_sizes, archive_texts, check_archive, check_one_root
from passsearch.frontends.foreign.operators import allowed
from passsearch.frontends.foreign.torch_pickle import violations_in_pickle

_NAMESPACES = frozenset({"aten", "prim", "quantized", "torchvision"})
_FUNCTIONS = frozenset(
    {"abs", "all", "annotate", "any", "bool", "chr", "complex", "dict", "divmod", "enumerate", "float", "getattr"}
    | {"hasattr", "hash", "hex", "int", "isinstance", "len", "list", "max", "min", "oct", "ord", "pow", "range"}
    | {"rangelist", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "unchecked_cast"}
    | {"unchecked_unwrap_optional", "uninitialized", "zip"}
)
"""TorchScript's own functions."""

_OPERATOR_METHODS = re.compile(
    r"save|load|from_file|set_|set_data|data_ptr|record_stream|resize_\w+|_(nested|sparse|unsafe|resize|reinterpret)_\w+"
    r"|\w+_unsafe"
)
"""Names of operators on files and raw memory. A method of such a name cannot be told from that of a tensor."""

_CLASSES = frozenset({"quantized", "rnn", "sparse"})
"""Namespaces of PyTorch's own classes that only hold weights."""

_WEIGHT_METHODS = frozenset({"unpack"})

_ROOTS = frozenset({"torch", "ops"})
_ENTRIES = (
    r"[^/]+/(version|byteorder|\.data/\w+|\.format_version|\.storage_alignment|(data|constants|bytecode|traced_inputs)\.pkl"
    r"|(data|constants|traced_inputs)/\d+|code/[\w./]+\.(py|debug_pkl)|extra/.*)"
)


def violations_in_script(path: Path) -> Iterator[str]:
    """Yield what the code and the pickles of an archive may run."""
    unfit = [*check_archive(path, _ENTRIES), *check_one_root(path)]
    yield from unfit
    if unfit:
        return
    # Decoded, because Python follows a line that names an encoding, and TorchScript does not.
    trees = [ast.parse(content.decode()) for _, content in archive_texts(path, ".py")]
    methods = _WEIGHT_METHODS | {
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    }
    yield from (f"a method `{name}`" for name in sorted(filter(_OPERATOR_METHODS.fullmatch, methods)))
    for tree in trees:
        yield from _violations_in_tree(tree, methods | _WEIGHT_METHODS)
    sizes = archive_sizes(path)
    for name, content in archive_texts(path, ".pkl"):
        if not name.endswith("/traced_inputs.pkl"):  # which is not loaded, and lacks its tensors
            yield from violations_in_pickle(content, name, sizes=sizes)


def _violations_in_tree(tree: ast.AST, methods: Collection[str]) -> Iterator[str]:
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    # Outer functions come first, so a call belongs to the innermost.
    callable_names = {id(node): names for each in functions for names in [_callable(each)] for node in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            yield from _violations_in_name(_names(node))
        elif isinstance(node, ast.Name) and node.id in _ROOTS and id(node) not in inner:
            yield f"`{node.id}` as a value"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield from _violations_in_method(node.func, methods)
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            if name not in callable_names.get(id(node), _FUNCTIONS):
                yield f"a call of `{name or ast.unparse(node.func)[:40]}`"


def _callable(function: ast.FunctionDef) -> frozenset[str]:
    """Return the names that a function may call: TorchScript's, and its own for operators or code of the file."""
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    stored = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    named = [
        node.targets[0].id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and len(node.targets) == 1
        if isinstance(node.value, ast.Attribute) and _names(node.value)[0] in {*_ROOTS, "__torch__"}
    ]
    own = {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    # A name with two values may be another one where it is called.
    return frozenset(name for name in named if stored[name] == 1) | (_FUNCTIONS - own - set(stored))


def _names(node: ast.expr) -> list[str]:
    """Return the names of an attribute from the left; the first is empty if it is no name."""
    if isinstance(node, ast.Attribute):
        return [*_names(node.value), node.attr]
    return [node.id if isinstance(node, ast.Name) else ""]


def _violations_in_name(names: Sequence[str]) -> Iterator[str]:
    """Yield an operator that is not allowed, whether it is called or made a value."""
    text = ".".join(names)
    if names[0] == "torch" and not (len(names) == 2 and names[1] in allowed("torch")):
        yield f"operator `{text}`"
    if names[:3] == ["__torch__", "torch", "classes"] and names[3:4] and names[3] not in _CLASSES:
        yield f"the class `{text}`"
    if names[0] == "ops":
        known = len(names) == 3 and names[1] in _NAMESPACES and names[2] in allowed("torch")
        if not known:
            yield f"operator `{text}`"


def _violations_in_method(function: ast.Attribute, methods: Collection[str]) -> Iterator[str]:
    root = _names(function)[0]
    if root not in {*_ROOTS, "__torch__"} and function.attr not in methods:
        yield f"a method `{function.attr}` that it does not define"
