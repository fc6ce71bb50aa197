"""Imports modules with open sizes, and one without a main; prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_relay_modules.py`` runs it and reads the lines.
"""

import json
import tempfile
from pathlib import Path

import tvm
from tvm import relay

from passsearch.core import TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer, ir_file
from passsearch.dialects.relay.bridge import RelayBridge
from passsearch.errors import UserError


def network(name: str) -> tvm.IRModule:
    """Return a module that adds two rows of open lengths."""
    first, second = (relay.var(each, shape=(1, relay.Any()), dtype="float32") for each in ("first", "second"))
    return tvm.IRModule({relay.GlobalVar(name): relay.Function([first, second], relay.add(first, second))})


def load(module: tvm.IRModule, inputs: dict[str, TensorType]) -> dict[str, object]:
    """Return the inputs of a module as it is imported, or the message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        ir_file.save(module, path)
        try:
            imported = importer.load(ModelSource(path, "ir", inputs))
        except UserError as error:
            return {"message": str(error)}
    types = RelayBridge("llvm").inputs(imported)
    return {"inputs": {name: list(kind.shape) for name, kind in types.items()}}


def row(length: int) -> TensorType:
    """Return the type of one input."""
    return TensorType((1, length), "float32")


if __name__ == "__main__":
    for case, name, inputs in (
        ("bound", "main", {"first": row(128), "second": row(128)}),
        ("open", "main", {"first": row(128)}),
        ("no main", "prefill", {}),
    ):
        print(json.dumps({"case": case, **load(network(name), inputs)}))
