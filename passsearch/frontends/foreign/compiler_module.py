"""Files of compiler modules: kinds of objects and operators by list. A module becomes machine code."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from passsearch.frontends.foreign.operators import allowed

_TYPES = re.compile(
    r"|None|bool|int|float|DataType|Device|dtype|device|(ffi|runtime)\.(\w*String|\w*Str|Bytes|Array|List|Map|Dict|Shape\w*"
    r"|Tensor|NDArray)|Array|Map|StrMap|(ir\.)?(IRModule|GlobalVar|GlobalTypeVar|GlobalInfo|TypeVar|TypeCall|TypeData"
    r"|TypeConstraint|FuncType|TupleType|TensorType|PrimType|PointerType|AnyType|IncompleteType|Type|IntImm|FloatImm|Op"
    r"|Var|Range|DictAttrs|VDevice|VirtualDevice|SourceMap|SourceName|Span|SequentialSpan|GenericConst|Call|Tuple"
    r"|TupleGetItem|DummyGlobalInfo|Constructor|Attrs)"
    r"|GlobalInfo\w*|DummyGlobalInfo|VDevice|relay\.(?!.*(Extern|Packed|Module))[\w.]+"
    r"|relax\.(?!.*(Extern|Packed|Module))[\w.]+|(tirx?|s_tir)\.(?!.*(Extern|Packed|Module))[\w.]+|te\.\w+|arith\.\w+"
)
"""Kinds of objects in a module's JSON. Functions of other libraries, compiled modules and targets are none."""

_CALLS = re.compile(
    r"[\w.]*(?:call_\w*(?:extern|packed)\w*|call_(?:unpacked|py_func|llvm|builtin|ffi)\w*|invoke_\w+|pragma_import_\w+"
    r"|ExternFunc|EnvFunc|Compiler|Codegen|debug_func)"
)
"""Names of attributes that make a code generator call by name, include source text or use another compiler."""


_KERNEL = re.compile(r"(tirx?|s_tir)\.PrimFunc")


def violations_in_module(path: Path) -> Iterator[str]:
    """Yield the calls that leave a module, and kinds of objects that are not known to stay in it."""
    content = json.loads(path.read_bytes(), object_pairs_hook=_once)
    nodes = content.get("nodes") if isinstance(content, dict) else None
    for node in nodes if isinstance(nodes, list) else ():
        yield from _violations_in_node(node)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON. One that has a key twice is read differently by different readers.

    Raises:
        ValueError: A key occurs twice.
    """
    if len(found := dict(pairs)) != len(pairs):
        raise ValueError("a key that occurs twice")
    return found


def _violations_in_node(node: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        yield "a part that is no object"
        return
    # Two formats have two names for each; a reader ignores those of the other.
    kinds = [node[key] for key in ("type_key", "type") if key in node]
    names = [node[key] for key in ("repr_str", "data") if key in node]
    attributes = node.get("attrs", {})
    for kind in kinds or [None]:
        if not isinstance(kind, str) or not _TYPES.fullmatch(kind):
            yield f"an object of the kind `{kind}`"
        elif _KERNEL.fullmatch(kind):
            yield "kernels of its own, which may write outside their arrays"
    if "repr_b64" in node:
        yield "names that are written so that they cannot be read"
    if {"Op", "ir.Op"} & set(map(str, kinds)):
        yield from (f"calls out of the network by `{name}`" for name in names if name not in allowed("compiler"))
    for text in (*names, *(attributes.values() if isinstance(attributes, dict) else ()), *node.get("keys", ())):
        if isinstance(text, str) and _CALLS.fullmatch(text):
            yield f"calls out of the network by `{text}`"
