"""Code in the archives of ``torch.export``: operators, names and sizes as Python, pickles, imports by name.

PyTorch writes the names of a program into Python that it runs while it loads the file, so a name is an identifier here.
"""

import io
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from passsearch.core import (
    archive_documents,
    archive_names,
    archive_sizes,
    archive_texts,
    check_archive,
    check_one_root,
)
from passsearch.frontends.foreign.operators import allowed
from passsearch.frontends.foreign.sizes import is_guard, is_size
from passsearch.frontends.foreign.torch_pickle import SAVED_ENTRIES, violations_in_pickle

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
    r"|serialized_example_inputs\.pt|extra_files/[^/]+"
)
"""Entries of the formats that PyTorch 2.8 and 2.2 introduced. A folder in `extra_files` would be one of the new."""

_EXTRA = re.compile(r"[^/]+/extra/.*")
_OLD_EXTRA = re.compile(r"extra_files/.*")
"""Entries of the user's own, which are not loaded."""

_CONTAINER = re.compile(
    r"builtins\.(tuple|list|dict|NoneType)|collections\.(OrderedDict|deque|namedtuple)|torch\.Size|transformers\.[\w.]+"
)
"""Types of nested inputs and outputs. PyTorch looks them up in a table; for `defaultdict` it imports a module."""

_TENSOR_FILE = re.compile(r"(weight|tensor)_\d+")

_SPECS = frozenset({"in_spec", "out_spec"})
_UNREAD = frozenset({"stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "custom", "from_node"})
"""Keys of texts that PyTorch only keeps."""

_NAME = "a name that could be Python,"
_IDENTIFIER = re.compile(r"(?!__)\w*")
_TEXT = re.compile(r"[^\"'\\\x00-\x1f\x7f]*")
_WORDS = re.compile(r"[\w.:/ +-]*")


def in_exported_program(path: Path) -> Iterator[str]:
    """Yield what ``torch.export.load`` would run: it looks operators up by name and evaluates sizes as Python."""
    is_old = "serialized_exported_program.json" in archive_names(path)
    unfit = [*check_archive(path, _OLD_ENTRIES if is_old else _ENTRIES), *([] if is_old else check_one_root(path))]
    yield from unfit
    if unfit:
        return
    extra, sizes = _OLD_EXTRA if is_old else _EXTRA, archive_sizes(path)
    for name, content in archive_documents(path):
        if not extra.fullmatch(name):
            yield from _violations_in_part("", content)
        if name.partition("/")[2].startswith("data/"):
            yield from _in_empty_records(content["config"].values(), sizes, folder=name.rpartition("/")[0])
    for name, content in archive_texts(path, ".pt"):
        if content and not extra.fullmatch(name):
            yield from _violations_in_tensors(content)


def _violations_in_tensors(content: bytes) -> Iterator[str]:
    """Yield what is not allowed in an archive of ``torch.save`` within the archive: example inputs and old weights."""
    inner = io.BytesIO(content)
    unfit = [*check_archive(inner, SAVED_ENTRIES), *check_one_root(inner)]
    yield from unfit
    if unfit:
        return
    for name, pickled in archive_texts(inner, ".pkl"):
        # The names of inputs become part of Python that PyTorch runs.
        yield from violations_in_pickle(pickled, name, sizes=archive_sizes(inner), texts=_TEXT)


def _in_empty_records(tensors: Any, sizes: Mapping[str, int], *, folder: str) -> Iterator[str]:
    """Yield tensors without a record of their values, which PyTorch fills with zeros."""
    for tensor in tensors:
        counts = [size["as_int"] for size in tensor["tensor_meta"]["sizes"]]
        if not sizes.get(f"{folder}/{tensor['path_name']}") and math.prod(counts):
            yield f"a tensor of {math.prod(counts):,} values that the file does not hold"


def _violations_in_part(key: str, part: Any) -> Iterator[str]:
    """Yield what is not allowed in a part of a program.

    Args:
        key: The name of the part; the items of a list have that of the list.
        part: Objects of JSON.
    """
    left = [(key, part)]
    while left:
        key, node = left.pop()
        if isinstance(node, list):
            left += [(key, item) for item in node]
        elif key in _SPECS and isinstance(node, str):
            yield from _violations_in_spec(json.loads(node))
        elif isinstance(node, str):
            yield from _violations_in_text(key, node)
        elif isinstance(node, dict):
            if node.get("use_pickle", False) is not False:
                yield "pickled tensors"
            left += node.items()


def _violations_in_spec(spec: Any) -> Iterator[str]:
    """Yield what is not allowed in the types of nested inputs or outputs."""
    left = [spec]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            if not _CONTAINER.fullmatch(str(node.get("type") or "builtins.tuple")):
                yield f"an input or output of the type `{node['type']}`"
            yield from _violations_in_context(node.get("context"))
            left.append(node.get("children_spec"))


def _violations_in_context(context: Any) -> Iterator[str]:
    """Yield what is not allowed in the parameters of a container's type: names and numbers are, not in objects.

    PyTorch imports a module that they name, for the values of a `defaultdict` and for a key that is an `Enum`.
    """
    left = [_inner(context) if isinstance(context, str) else context]
    while left:
        node = left.pop()
        if isinstance(node, list):
            left += node
        elif isinstance(node, dict):
            yield "an import by name"
        elif isinstance(node, str) and not _WORDS.fullmatch(node):
            yield f"{_NAME} `{node}`"


def _inner(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _violations_in_text(key: str, text: str) -> Iterator[str]:
    if key in _UNREAD:
        return
    is_allowed, danger = _READ.get(key, (_WORDS.fullmatch, _NAME))
    if not is_allowed(text):
        yield f"{danger} `{text}`"


def _is_operator(target: str) -> bool:
    match = _TORCH_OPERATOR.fullmatch(target)
    if match is None:
        return False
    if match["python"]:
        return _PYTHON_OPERATORS.fullmatch(match["python"]) is not None
    return match["name"] is None or match["name"] in allowed("torch")


_READ: Mapping[str, tuple[Callable[[str], object], str]] = {
    **dict.fromkeys(("target", "as_operator"), (_is_operator, "operator")),
    **dict.fromkeys(("name", "as_name", "forward_arg_names", "field_names"), (_IDENTIFIER.fullmatch, _NAME)),
    **dict.fromkeys(("as_string", "as_strings"), (_TEXT.fullmatch, _NAME)),
    # `sympy.sympify` evaluates its text, as sympy's documentation warns.
    "expr_str": (is_size, "Python in a size,"),
    "guards_code": (is_guard, "Python in a guard,"),
    "path_name": (_TENSOR_FILE.fullmatch, "pickled Python in"),
}
"""What a text may be, and what it is otherwise, by its key."""
