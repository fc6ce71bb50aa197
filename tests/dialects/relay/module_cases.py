"""Imports modules with open sizes, without a main, and with several functions; prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_relay_modules.py`` runs it and reads the lines.
"""

import json
import platform
import tempfile
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

from passsearch.core import BuildOptions, TensorType
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay import importer, ir_file, summary
from passsearch.dialects.relay.bridge import RelayBridge
from passsearch.dialects.relay.executable import GraphExecutable
from passsearch.errors import UserError


def network(name: str) -> tvm.IRModule:
    """Return a module that adds two rows of open lengths."""
    first, second = (relay.var(each, shape=(1, relay.Any()), dtype="float32") for each in ("first", "second"))
    return tvm.IRModule({relay.GlobalVar(name): relay.Function([first, second], relay.add(first, second))})


def functions() -> tvm.IRModule:
    """Return a module of two functions, one of which calls a third."""
    module = tvm.IRModule()
    row = relay.var("x", shape=(1, 8), dtype="float32")
    helper = relay.GlobalVar("helper")
    module[helper] = relay.Function([row], relay.nn.relu(row), relay.TensorType((1, 8), "float32"))
    for name, length in (("decode", 1), ("main", 4)):
        data = relay.var("x", shape=(length, 8), dtype="float32")
        body = relay.Call(helper, [data]) if length == 1 else relay.exp(data)
        module[relay.GlobalVar(name)] = relay.Function([data], body)
    return relay.transform.InferType()(module)


def load(module: tvm.IRModule, inputs: dict[str, TensorType], function: str = "") -> dict[str, object]:
    """Return the inputs of a module as it is imported, the functions of its file, or the message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        ir_file.save(module, path)
        try:
            imported = importer.load(ModelSource(path, "ir", inputs, function=function))
        except UserError as error:
            return {"message": str(error)}
        present = ir_file.list_functions(path)
    types = RelayBridge("llvm").inputs(imported)
    names = sorted(name.name_hint for name in imported.get_global_vars())
    return {"inputs": {name: list(kind.shape) for name, kind in types.items()}, "names": names, "present": present}


def pooled() -> dict[str, object]:
    """Return the attributes of an operator whose attributes have no class in Python."""
    data = relay.var("x", shape=(1, 4, 6), dtype="float32")
    body = relay.nn.adaptive_avg_pool1d(data, [1])
    module = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], body)))
    (operator,) = [each for each in summary.summarize(module).operators if each.op == body.op.name]
    return {"attributes": operator.attributes, "counts": summary.count_operators(module)}


def profiled() -> dict[str, object]:
    """Return whether outputs are the same before and after the kernels of a network are observed, and their names."""
    data = relay.var("x", shape=(1, 8), dtype="float32")
    module = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([data], relay.exp(data))))
    inputs = [{"x": np.full((1, 8), value, "float32")} for value in (1.0, 2.0)]
    with tempfile.TemporaryDirectory() as folder:
        bridge = RelayBridge(f"llvm -mtriple={platform.machine()}-unknown-linux-gnu")
        executable = GraphExecutable(bridge.build(module, BuildOptions(opt_level=0), Path(folder)), "cpu")
        before = [executable.run(each)[0] for each in inputs]
        calls = executable.run_by_kernel(inputs[0]) or []
        after = [executable.run(each)[0] for each in inputs]
    equal = all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    return {"equal": equal, "differ": not np.array_equal(*after), "calls": len(calls)}


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
    print(json.dumps({"case": "without a class", **pooled()}))
    print(json.dumps({"case": "profiled", **profiled()}))
    print(json.dumps({"case": "chosen", **load(functions(), {}, function="decode")}))
    print(json.dumps({"case": "unknown function", **load(functions(), {}, function="encode")}))
