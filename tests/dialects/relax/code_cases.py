"""Writes libraries of small networks by several threads and by TVM's own build; prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_code_generation.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
from small_modules import network
from tvm import relax
from tvm.relax import op
from tvm.s_tir import dlight

from passsearch.core import BuildOptions
from passsearch.dialects.contract import CompileError
from passsearch.dialects.relax.bridge import RelaxBridge
from passsearch.dialects.relax.code_size import code_bytes
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.code_generation import (
    ASYNC_COPIES,
    are_independent,
    build_config,
    generate_code,
    write_library,
)
from passsearch.standalone.relax.deployment.lowering import lower

TARGET = tvm.target.Target("llvm")
SHAPE = (4, 16)


def products(data: Any) -> Any:
    """Return a chain of operators that are kernels, two of them equal."""
    weights = relax.const(np.random.default_rng(0).standard_normal((16, 16), dtype="float32"))
    for _ in range(2):
        data = op.nn.relu(op.matmul(data, weights))
    return op.sum(data, axis=1)


def open_sizes(data: Any) -> Any:
    """Return sums; their rows are known at run time only, so a function of shapes is a kernel, too."""
    return op.add(op.reshape(data, (-1, 2)), relax.const(1.0))


def untouched(data: Any) -> Any:
    """Return the input itself, so that the network has no kernels."""
    return data


def write(module: Any, folder: Path, threads: int | None, config: dict[str, Any]) -> tuple[bytes, Any]:
    """Return a library and its output, built by some threads or, with ``None``, by TVM's own build."""
    path, size = folder / f"{threads}.so", module["main"].params[0].ty.shape
    rows = [int(each) if isinstance(each, tvm.tirx.IntImm) else 3 for each in size.values]
    with TARGET, tvm.transform.PassContext(opt_level=4, config=config):
        lowered = lower(module, level=0, target=TARGET)
        if threads is None:
            relax.build(lowered, TARGET, relax_pipeline=None).export_library(str(path))
        else:
            write_library(lowered, TARGET, path, threads=threads)
    value = np.random.default_rng(1).standard_normal(rows, dtype="float32")
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(path)), tvm.cpu())
    return path.read_bytes(), machine["main"](tvm.runtime.tensor(value)).numpy()


def compare(shape: Any, body: Callable[..., Any], **config: Any) -> tuple[dict[str, Any], bytes]:
    """Return whether one, two and eight threads write one library, whose outputs are those of TVM's own build."""
    with tempfile.TemporaryDirectory() as folder:
        module = network(shape, body, "float32")
        own, *ours = (write(module, Path(folder), threads, config) for threads in (None, 1, 2, 8))
        same_library = len({library for library, _ in ours}) == 1
        same_outputs = all(np.array_equal(output, own[1]) for _, output in ours)
        return {"same_library": same_library, "same_outputs": same_outputs}, ours[0][0]


def refuse() -> str:
    """Return what a build says of one kernel among others that a CPU cannot have: its loops are those of a GPU."""
    gpu = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})
    with gpu:
        module = tvm.transform.Sequential(
            [relax.transform.LegalizeOps(), dlight.ApplyDefaultSchedule(dlight.gpu.Fallback())]
        )(network(SHAPE, products, "float32"))
    try:
        with tempfile.TemporaryDirectory() as folder:
            RelaxBridge("llvm").build(module, BuildOptions(opt_level=0), Path(folder))
    except CompileError as error:
        return str(error)
    return ""


def meet(threads: int) -> str:
    """Return whether the code of two modules is generated at the same time, by some threads."""
    barrier, timeout_s = threading.Barrier(2), 10 if threads > 1 else 1  # one thread always waits in vain
    with TARGET, tvm.transform.PassContext(opt_level=4):
        lowered = lower(network(SHAPE, products, "float32"), level=0, target=TARGET)
        kernels = [{name: each} for name, each in lowered.functions_items() if isinstance(each, tvm.tirx.PrimFunc)]
        try:
            generate_code(kernels[:2], TARGET, threads=threads, use=lambda *_: barrier.wait(timeout_s))
        except threading.BrokenBarrierError:
            return "in turns"
    return "side by side"


def start_no_thread() -> str:
    """Return the class of the error where the system starts no thread, which is no fault of a kernel."""

    def refuse_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with mock.patch.object(threading.Thread, "start", refuse_thread), tempfile.TemporaryDirectory() as folder:
        try:
            RelaxBridge("llvm").build(network(SHAPE, products, "float32"), BuildOptions(opt_level=0), Path(folder))
        except (OSError, RuntimeError) as error:
            return type(error).__name__
    return ""


def measure_code() -> dict[str, Any]:
    """Return how the code of a network's kernels is measured, with assertions and without them."""
    module = network(SHAPE, products, "float32")
    with tempfile.TemporaryDirectory() as folder:
        sizes = []
        for place, config in enumerate(((), (("tirx.disable_assert", True),))):
            path = Path(folder) / str(place)
            artifact = RelaxBridge("llvm").build(module, BuildOptions(0, config=config), path)
            sizes.append({name: cost.code_bytes or 0 for name, cost in artifact.kernel_costs().items()})
        whole, plain = sizes
        larger = [name for name, size in plain.items() if not 0 < size < whole[name]]
        unnamed = code_bytes(Path(folder) / "no library")
    return {"kernels": len(whole), "not larger with assertions": larger, "without names": unnamed}


TILED = {(5, 8): (4, 6), (3, 16): (6, 7), (1, 8, 4, 8): (5, 5, 1, 7), (2, 3, 4, 5): (7, 6, 4, 2)}
"""Repetitions by shape. LLVM's code for AVX2 reads beyond the data of the first three, that for AVX-512 of the last."""


def tile(*passes: Any) -> list[tuple[int, ...]]:
    """Return the shapes whose repetition is wrong in the code for this processor, after passes."""
    bridge, wrong = RelaxBridge(f"llvm -mcpu={tvm.target.codegen.llvm_get_system_cpu()}"), []
    for shape, times in TILED.items():
        data = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        module = network(shape, lambda value, times=times: op.nn.relu(op.tile(value, times)), "float32")
        with bridge.target, tempfile.TemporaryDirectory() as folder:
            module = tvm.transform.Sequential([relax.transform.LegalizeOps(), *passes])(module)
            executable = bridge.open(bridge.build(module, BuildOptions(opt_level=0), Path(folder)), "cpu")
            (output,) = executable.run({"x": data})
        if not np.array_equal(output, np.tile(data, times)):
            wrong.append(shape)
    return wrong


def call_each_other() -> bool:
    """Return whether kernels that call one another are left to TVM's own build."""
    kernel = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(0))
    name = tvm.IRModule({"callee": kernel}).get_global_var("callee")
    caller = tvm.tirx.PrimFunc([], tvm.tirx.Evaluate(name(tvm.tirx.IntImm("int32", 1))))
    module = tvm.IRModule({name: kernel, "caller": caller})
    return not are_independent(module, list(module.functions))


def copy_options() -> dict[str, Any]:
    """Return whether copies run beside what is computed, by target, and where the user forbids it."""
    targets = {"cuda": {"kind": "cuda", "arch": "sm_80"}, "opencl": {"kind": "opencl"}, "llvm": {"kind": "llvm"}}
    chosen = {name: build_config({}, tvm.target.Target(each)).get(ASYNC_COPIES) for name, each in targets.items()}
    own = build_config({ASYNC_COPIES: False, "tirx.disable_assert": True}, tvm.target.Target(targets["cuda"]))
    return {**chosen, "own": own}


if __name__ == "__main__":
    plain = b""
    for name, shape, body in (
        ("products", SHAPE, products),
        ("open sizes", (tvm.tirx.Var("n", "int64"), 4), open_sizes),
        ("no kernels", SHAPE, untouched),
    ):
        result, library = compare(shape, body)
        plain = plain or library
        print(json.dumps({"case": name, **result}))
    result, library = compare(SHAPE, products, **{"tirx.disable_assert": True})
    print(json.dumps({"case": "without assertions", **result, "differs": library != plain}))
    print(json.dumps({"case": "threads", "one": meet(1), "two": meet(2), "none": start_no_thread()}))
    print(json.dumps({"case": "code", **measure_code()}))
    print(json.dumps({"case": "copies", **copy_options()}))
    print(json.dumps({"case": "calls", "whole": call_each_other()}))
    fused = [relax.transform.AnnotateTIROpPattern(), relax.transform.FuseOps(), relax.transform.FuseTIR()]
    print(json.dumps({"case": "tiles", "wrong": [*tile(), *tile(*fused, ScheduleCPU())]}))
    print(json.dumps({"case": "refused", "message": refuse()}))
