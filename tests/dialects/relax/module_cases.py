"""Imports modules with open sizes, without a main, and with several functions; prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_relax_modules.py`` runs it and reads the lines.
"""

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from passsearch.core import BuildOptions, PassSpec, TensorType, read_calls
from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relax import ir_file
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.dialects.relax.executable import CAPTURE, CallRecorder
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


def functions() -> tvm.IRModule:
    """Return a module of two functions that multiply by the same weights, one of them by a function of its own."""
    builder, weights = relax.BlockBuilder(), relax.const(np.eye(8, dtype="float32"))
    for name, length in (("decode", 1), ("prefill", tirx.Var("n", "int64"))):
        data = relax.Var("x", relax.TensorType((length, 8), "float32"))
        with builder.function(f"{name}_product", [data], private=True):
            builder.emit_func_output(builder.normalize(relax.op.matmul(data, weights)))
        product = builder.get().get_global_var(f"{name}_product")
        outer = relax.Var("x", relax.TensorType((length, 8), "float32"))
        with builder.function(name, [outer]):
            builder.emit_func_output(builder.normalize(relax.Call(product, [outer])))
    return builder.get()


def record_calls() -> dict[str, object]:
    """Record calls as the virtual machine reports them, some of them while a CUDA graph is captured."""
    recorder = CallRecorder()
    kernel, data = tvm_ffi.convert(lambda *_: None), tvm.runtime.tensor(np.ones(3, dtype="float32"))

    def call(name: str, function: object = kernel) -> None:
        for before in (True, False):
            recorder.instrument(function, name, before, None, data, 5)

    call("dense")
    recorder.instrument(kernel, CAPTURE, True, None)
    for name in ("dense", "add", "add") * 2:  # what is captured runs once before
        call(name)
    recorder.instrument(kernel, CAPTURE, False, None)
    call("vm.builtin.reshape")
    call("private", function=relax.op.add)  # a function of the module, whose kernels are reported themselves
    data.copyfrom(np.zeros(3, dtype="float32"))
    ((_, (recorded, number)), *_) = recorder.calls["add"]
    numbers = {name: len(own) for name, own in recorder.calls.items()}
    return {"calls": numbers, "data": recorded.numpy().tolist(), "number": number}


def load(module: tvm.IRModule, inputs: dict[str, TensorType], **calls: str) -> dict[str, object]:
    """Return the inputs of a module as it is imported, its other functions, or the message."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "module.json"
        ir_file.save(module, path)
        source = ModelSource(path, "ir", inputs, **calls)
        try:
            imported = RelaxBridge("llvm").load(source)
        except UserError as error:
            return {"message": str(error)}
        present = list(RelaxBridge("llvm").function_names(source))
    types = RelaxBridge("llvm").inputs(imported)
    names = sorted(name.name_hint for name in imported.get_global_vars())
    return {"inputs": {name: list(kind.shape) for name, kind in types.items()}, "names": names, "present": present}


def load_cases() -> dict[str, object]:
    """Import both functions as cases; write the module, read it again, and build it."""
    calls = read_calls("prefill:0.1,decode:0.9", None, {"prefill.x": TensorType((4, 8), "float32")})
    bridge = RelaxBridge(f"llvm -mtriple={tvm.target.codegen.llvm_get_system_triple()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ir_file.save(functions(), folder / "module.json")
        module = bridge.load(ModelSource(folder / "module.json", "ir", {}, cases=calls.cases))
        saved = tuple(replace(case, function=case.entry) for case in calls.cases)
        digests = set()
        for save in (bridge.save, bridge.save_with_external_weights):
            save(module, folder / "saved.json")
            digests.add(bridge.structural_hash(bridge.load(ModelSource(folder / "saved.json", "ir", {}, cases=saved))))
        loops = module
        for step in ("InlinePrivateFunctions", "LegalizeOps"):
            loops = bridge.apply(loops, PassSpec.of(step), factory=f"tvm.relax.transform:{step}")
        weights = {case.entry: case.weight for case in calls.cases}
        kernels = sorted(kernel.calls for kernel in bridge.kernels(loops, weights))
        artifact = bridge.build(module, BuildOptions(), folder / "built")
        network = bridge.open(artifact, "cpu")
        shapes = []
        for case in calls.cases:
            data = np.ones(bridge.inputs(module, case.entry)["x"].shape, "float32")
            shapes.append(list(network.entry(case.entry).run({"x": data})[0].shape))
    names = sorted(variable.name_hint for variable in module.get_global_vars())
    same = digests == {bridge.structural_hash(module)}
    constants = len(bridge.constants.strip(module)[1])
    return {"names": names, "same": same, "shapes": shapes, "constants": constants, "calls": kernels}


def run_symbolic() -> dict[str, object]:
    """Import a function with its sizes open, schedule it, and run the build at two sizes."""
    calls = read_calls("prefill", "x=2x8,5x8", {}, keep_symbolic=True)
    bridge = RelaxBridge(f"llvm -mtriple={tvm.target.codegen.llvm_get_system_triple()}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ir_file.save(functions(), folder / "module.json")
        module = bridge.load(ModelSource(folder / "module.json", "ir", {}, cases=calls.cases))
        inputs = {name: list(kind.shape) for name, kind in bridge.inputs(module).items()}
        for step, factory in (
            ("LegalizeOps", "tvm.relax.transform:LegalizeOps"),
            ("ScheduleCPU", "passsearch.standalone.relax.cpu_schedules:ScheduleCPU"),
        ):
            module = bridge.apply(module, PassSpec.of(step), factory=factory)
        kernels = len(bridge.kernels(module))
        network = bridge.open(bridge.build(module, BuildOptions(opt_level=0), folder / "built"), "cpu")
        executables = [network.entry(case.entry) for case in calls.cases]
        data = [np.random.default_rng(0).standard_normal((length, 8)).astype("float32") for length in (2, 5)]
        # The weights are the unit matrix. Both runs are saved before either is repeated.
        outputs = [executable.run({"x": each})[0] for executable, each in zip(executables, data, strict=True)]
        for executable in executables:
            executable.run_repeatedly(2)
    equal = [bool(np.array_equal(*pair)) for pair in zip(outputs, data, strict=True)]
    return {"inputs": inputs, "kernels": kernels, "equal": equal}


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
    print(json.dumps({"case": "chosen", **load(functions(), {}, function="decode")}))
    print(json.dumps({"case": "open function", **load(functions(), {}, function="prefill")}))
    print(json.dumps({"case": "unknown function", **load(functions(), {}, function="encode")}))
    print(json.dumps({"case": "recorded", **record_calls()}))
    print(json.dumps({"case": "cases", **load_cases()}))
    print(json.dumps({"case": "symbolic", **run_symbolic()}))
