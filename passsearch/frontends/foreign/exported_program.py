"""Code in the archives of ``torch.export``: operators, sizes as Python, pickles, imports by name."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from passsearch.core import archive_documents, archive_names, check_archive, check_one_root
from passsearch.frontends.foreign.operators import torch_operators

_TORCH_OPERATOR = re.compile(
    r"torch\.ops\.(aten|prims|prim|quantized|quantized_decomposed|torchvision|higher_order)"
    r"\.(?P<name>\w+)(\.(?!__)\w+)?|torch\.sym_[a-z_]+|_operator\.(?P<python>\w+)|math\.(?!_)\w+"
)
_PYTHON_OPERATORS = re.compile(
    "add|sub|mul|floordiv|truediv|mod|neg|pow|pos|abs|getitem|eq|ne|lt|le|gt|ge|and_|or_|not_"
)
_PARTS = r"version|archive_format|archive_version|byteorder|\.data/\w+|\.format_version|\.storage_alignment"
_ENTRIES = (
    rf"[^/]+/({_PARTS}|models/[^/]+\.json|data/(weights|constants)/(\w+_\d+|[^/]+\.(json|pt))"
    r"|data/sample_inputs/[^/]+\.pt|extra/.*)"
)
_OLD_ENTRIES = (
    r"version|serialized_exported_program\.json|serialized_(state_dict|constants)\.(json|pt)"
    r"|serialized_example_inputs\.pt|extra_files/.*"
)
"""Entries of the formats that PyTorch 2.8 and 2.2 introduced."""

_CONTAINER = re.compile(
    r"builtins\.(tuple|list|dict|NoneType)|collections\.(OrderedDict|deque|namedtuple)|torch\.Size|transformers\.[\w.]+"
)
"""Types of nested inputs and outputs. PyTorch looks them up in a table; for `defaultdict` it imports a module."""

_GROWS = (ast.Pow, ast.LShift)
MOST_POWERS, MOST_EXPONENT = 4, 64
"""Most powers in a size, and the largest exponent: sympy computes powers of numbers at once."""

_TENSOR_FILE = re.compile(r"(weight|tensor)_\d+")


def in_exported_program(path: Path) -> Iterator[str]:
    """Yield what ``torch.export.load`` would run: it looks operators up by name and evaluates sizes as Python."""
    is_old = "serialized_exported_program.json" in archive_names(path)
    unfit = [*check_archive(path, _OLD_ENTRIES if is_old else _ENTRIES), *([] if is_old else check_one_root(path))]
    yield from unfit
    for _, content in () if unfit else archive_documents(path):
        yield from _in_program(content)


def _in_program(root: Any) -> Iterator[str]:
    left = [root]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        if isinstance(node, str) and node[:1] in ("[", "{"):
            left.append(_inner(node))  # types of nested inputs are JSON in a text, their parameters in a text of that
        if not isinstance(node, dict):
            continue
        if "children_spec" in node and not _CONTAINER.fullmatch(str(node.get("type") or "builtins.tuple")):
            yield f"an input or output of the type `{node['type']}`"
        for key, value in node.items():
            yield from _in_entry(key, value)
            left.append(value)


def _inner(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _in_entry(key: str, value: Any) -> Iterator[str]:
    if key == "target" and isinstance(value, str) and not _is_operator(value):
        yield f"operator `{value}`"
    # `sympy.sympify` evaluates its text, as sympy's documentation warns.
    if key == "expr_str" and not _is_size(str(value)):
        yield f"Python in a size, `{value}`"
    if key == "path_name" and not _TENSOR_FILE.fullmatch(str(value)):
        yield f"pickled Python in `{value}`"
    if key == "use_pickle" and value is not False:
        yield "pickled tensors"
    if "default_factory_module" in (key, *([value] if isinstance(value, str) and len(value) < 100 else [])):
        yield "an import by name"


def _is_operator(target: str) -> bool:
    match = _TORCH_OPERATOR.fullmatch(target)
    if match is None:
        return False
    if match["python"]:
        return _PYTHON_OPERATORS.fullmatch(match["python"]) is not None
    return match["name"] is None or match["name"] in torch_operators()


def _is_size(text: str) -> bool:
    """Return whether a text is an expression of numbers, symbols and functions of sympy, which begin with capitals."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError):
        return False
    powers = [node for node in ast.walk(tree) if isinstance(node, ast.BinOp) and isinstance(node.op, _GROWS)]
    is_small = len(powers) <= MOST_POWERS and all(_is_exponent(node.right) for node in powers)
    return is_small and all(map(_is_plain, ast.walk(tree)))


def _is_exponent(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and abs(node.value) <= MOST_EXPONENT


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
