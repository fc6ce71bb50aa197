"""Imports modules with open sizes, and one without a main; prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_relax_modules.py`` runs it and reads the lines.
"""

import json
import tempfile
from pathlib import Path

import tvm
from tvm import relax, tirx

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import ir_file
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.errors import UserError


def network(name: str) -> tvm.IRModule:
    """Return a module that adds two rows of one open length."""
    length = tirx.Var("n", "int64")
    first, second = (relax.Var(each, relax.TensorType((1, length), "float32")) for each in ("first", "second"))
    builder = relax.BlockBuilder()
    with builder.function(name, [first, second]):
        with builder.dataflow():
            output = builder.emit_output(builder.emit(relax.op.add(first, second)))
        builder.emit_func_output(output)
    return builder.get()


def load(module: tvm.IRModule, inputs: dict[str, TensorType]) -> dict[str, object]:
    """Return the inputs of a module as it is imported, or the message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        ir_file.save(module, path)
        try:
            imported = ir_file.read(ModelSource(path, "ir", inputs))
        except UserError as error:
            return {"message": str(error)}
    types = RelaxBridge("llvm").inputs(imported)
    return {"inputs": {name: list(kind.shape) for name, kind in types.items()}}


def row(length: int) -> TensorType:
    """Return the type of one input."""
    return TensorType((1, length), "float32")


if __name__ == "__main__":
    for case, name, inputs in (
        ("bound", "main", {"first": row(128)}),
        ("open", "main", {}),
        ("contradictory", "main", {"first": row(128), "second": row(64)}),
        ("no main", "prefill", {}),
    ):
        print(json.dumps({"case": case, **load(network(name), inputs)}))
