"""Compiler modules that call out of themselves, and symbols of MXNet with operators that do."""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

NODES = {
    "extern": {"type_key": "Op", "repr_str": "tir.call_extern"},
    "packed": {"type": "ir.Op", "data": "tirx.tvm_call_packed"},
    "pure": {"type": "ir.Op", "data": "relax.call_pure_packed"},
    "dps": {"type": "ir.Op", "data": "relax.call_dps_packed"},
    "llvm": {"type": "ir.Op", "data": "tirx.call_llvm_intrin"},
    "unknown": {"type": "ir.Op", "data": "mine.run"},
    "address": {"type": "ir.Op", "data": "tirx.address_of"},
    "function": {"type": "relax.expr.ExternFunc", "data": {}},
    "module": {"type": "ffi.Module", "data": "x"},
    "environment": {"type_key": "EnvFunc", "repr_str": "x"},
    "library": {"type_key": "runtime.Module", "repr_b64": "eA=="},
    "source": {"type_key": "runtime.String", "repr_str": "pragma_import_c"},
    "compiler": {"type_key": "StrMap", "keys": ["Compiler"], "data": [1]},
    "two-kinds": {"type_key": "IntImm", "type": "ffi.Module", "data": "x"},
    "two-names": {"type": "ir.Op", "repr_str": "add", "data": "tirx.call_extern"},
    "kernel": {"type": "tirx.PrimFunc", "data": {}},
    "codegen": {"type": "ffi.String", "data": "Codegen"},
    "base64": {"type_key": "Op", "repr_b64": "dGlyLmNhbGxfZXh0ZXJu"},
}
OPERATORS = ("Custom", "_Native", "_NDArray", "_CustomFunction", "_sg_evil", "_foreach")


def write(folder: Path) -> Iterator[Path]:
    """Write the files, and yield their paths."""
    for name, node in NODES.items():
        (folder / f"module-{name}.json").write_text(json.dumps({"root": 1, "nodes": [node]}))
        yield folder / f"module-{name}.json"
    texts = {
        "escape": r'{"root": 1, "nodes": [{"type_key": "Op", "repr_str": "tir.call_e\u0078tern"}]}',
        "twice": '{"root": 1, "nodes": [{"type_key": "Op", "repr_str": "tir.call_extern", "repr_str": "add"}]}',
        "deep": "[" * 200_000,
    }
    for name, text in texts.items():
        (folder / f"module-{name}.json").write_text(text)
        yield folder / f"module-{name}.json"
    for place, operator in enumerate(OPERATORS):
        yield _symbol(folder / f"mx{place}-symbol.json", [{"op": operator, "name": "y", "inputs": []}])
    inner = {"op": "_cond", "name": "y", "subgraphs": [{"nodes": [{"op": "Custom", "name": "z"}]}]}
    yield _symbol(folder / "mxinner-symbol.json", [inner])
    yield _symbol(folder / "mxhuge-symbol.json", [], array=struct.pack("<I2q3i", 2, 1 << 40, 1 << 20, 1, 0, 0))
    yield _symbol(folder / "mxcut-symbol.json", [], array=b"")
    yield _symbol(folder / "mxmany-symbol.json", [], count=1 << 60)


def _symbol(path: Path, nodes: list[dict[str, object]], *, array: bytes | None = None, count: int = 1) -> Path:
    path.write_text(json.dumps({"nodes": [{"op": "null", "name": "x"}, {"op": "null", "name": "w"}, *nodes]}))
    one = struct.pack("<I1q3i", 1, 1, 1, 0, 0) + bytes(4)
    content = struct.pack("<Ii", 0xF993FAC9, 0) + (one if array is None else array)
    names = struct.pack("<QQ", 1, 5) + b"arg:w"
    parameters = path.with_name(path.name.replace("-symbol.json", ".params"))
    parameters.write_bytes(struct.pack("<QQQ", 0x112, 0, count) + content + names)
    return path
