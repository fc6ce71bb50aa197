"""Calls out of a compiler module's file. A module becomes machine code, so such a call may run anything."""

import re
from collections.abc import Iterator
from pathlib import Path

_CALLS = re.compile(
    rb'"[\w.]*(?:call_\w*(?:extern|packed)\w*|call_(?:unpacked|py_func|llvm|builtin|ffi)\w*|invoke_\w+|pragma_import_\w+'
    rb'|ExternFunc|EnvFunc|Compiler|debug_func)"'
)
"""Names in TVM's JSON of calls by name, of source text that the code generator includes, and of other compilers."""

_HIDDEN = re.compile(rb'\\u00[2-7]|"repr_b64"')
"""A printable character that is written as an escape, and a name in base64. No compiler writes names so."""


def in_module(path: Path) -> Iterator[str]:
    """Yield the calls that leave a module."""
    content = path.read_bytes()
    for name in sorted({match[0] for match in _CALLS.finditer(content)}):
        yield f"calls out of the network by {name.decode()}"
    if _HIDDEN.search(content):
        yield "names that are written so that they cannot be read"
