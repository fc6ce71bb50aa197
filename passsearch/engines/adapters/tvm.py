"""A release of TVM as it comes: its own pipeline for Relax, by its own importer, without passsearch."""

import os
import time
from collections.abc import Sequence
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request, fastest_calls, usable_cores

ENVIRONMENT = EngineEnvironment(
    "apache-tvm",
    REQUIREMENTS,
    ("tvm", "onnx"),
    disk_bytes=1_000_000_000,
    requirement="apache-tvm==0.27.0.post1",
    # Its library does not load beside later ones, which its package allows.
    pins=(("0.25.", "apache-tvm-ffi==0.1.12"),),
)
ENGINES: dict[str, dict[str, Any]] = {"apache-tvm": {}}
BUILTIN = "vm."
"""Beginning of the names of functions that belong to TVM's virtual machine."""


class Tvm:
    """A network in Relax's virtual machine, whose weights are constants."""

    def __init__(self, model: str, *, threads: int | None, inputs: Inputs) -> None:
        self.threads = threads or usable_cores()
        os.environ["TVM_NUM_THREADS"] = str(self.threads)  # read before the first kernel
        import onnx
        import tvm
        import tvm_ffi
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        processor = tvm_ffi.get_global_func("target.llvm_get_system_cpu")()
        target = tvm.target.Target({"kind": "llvm", "mcpu": str(processor)})
        module = from_onnx(onnx.load(model), keep_params_in_input=False)
        self._tensor = tvm.runtime.tensor
        self._machine = relax.VirtualMachine(tvm.compile(module, target=target), tvm.cpu())
        arrays = map(self._tensor, inputs.values())
        self._machine.save_function("main", "timed", *arrays, include_return=False)
        self._timed = self._machine["timed"]
        self.versions = {"tvm": tvm.__version__}
        self.settings = {"mcpu": str(processor)}

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        return [each.numpy() for each in _flatten(self._machine["main"](*map(self._tensor, inputs.values())))]

    def infer(self) -> None:
        """Run once."""
        self._timed()

    def requests(self, count: int) -> Sequence[Request]:
        """Refuse: a virtual machine runs one inference at a time."""
        raise NotImplementedError("TVM's virtual machine runs one inference at a time")

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the calls that the virtual machine makes, timed between its notices."""
        calls: list[KernelCall] = []
        begin = 0.0

        def instrument(_function: Any, name: str, before: bool, *_: Any) -> int:
            nonlocal begin
            if before:
                begin = time.perf_counter()
            elif not name.startswith(BUILTIN):
                calls.append(KernelCall(name, time.perf_counter() - begin))
            return 0  # the machine goes on with the call

        self._machine.set_instrument(instrument)
        by_run = []
        for _ in range(runs + 1):  # the first one fills the caches
            calls = []
            self._timed()
            by_run.append(calls)
        self._machine.set_instrument(lambda *_: 0)
        return fastest_calls(by_run[1:])


def _flatten(value: Any) -> list[Any]:
    return [value] if hasattr(value, "numpy") else [each for part in value for each in _flatten(part)]


def open_engine(model: str, *, threads: int | None, inputs: Inputs) -> Tvm:
    """Import and compile a model file by TVM's own default."""
    return Tvm(model, threads=threads, inputs=inputs)
