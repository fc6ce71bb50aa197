"""Built networks on a device, run by TVM's graph executor."""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib import graph_executor

from passsearch.dialects.contract import Array, Artifact, Executable, KernelCalls
from passsearch.dialects.shared import parse_device

KERNELS, GRAPH, PARAMETERS = "kernels.so", "graph.json", "parameters.bin"


class GraphExecutable(Executable):
    """A network in a graph executor; the device holds its parameters once."""

    def __init__(self, artifact: Artifact, device: str) -> None:
        kind, index = parse_device(device)
        self._device, self._has_events = tvm.device(kind, index), kind != "cpu"
        self._folder = artifact.folder
        self._has_profiler = False
        self._names: list[str] = []
        self._module = self._load(tvm.get_global_func("tvm.graph_executor.create"))

    def _load(self, create: Callable[..., Any]) -> Any:
        library = tvm.runtime.load_module(str(self._folder / KERNELS))
        graph, device = (self._folder / GRAPH).read_text(), self._device
        module = graph_executor.GraphModule(create(graph, library, device.device_type, device.device_id))
        module.load_params((self._folder / PARAMETERS).read_bytes())
        return module

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Set the inputs, run once, copy the outputs to the host."""
        self._set_inputs(inputs)
        self._module.run()
        return [self._module.get_output(index).numpy() for index in range(self._module.get_num_outputs())]

    def held_inputs(self) -> Mapping[str, Array]:
        """Return the inputs of the last run as they are in memory."""
        return {name: self._module.get_input(name).numpy() for name in self._names}

    def _set_inputs(self, inputs: Mapping[str, Array]) -> None:
        # An input that nothing reads is not in the graph.
        self._names = [name for name in inputs if self._module.get_input_index(name) >= 0]
        for name in self._names:
            self._module.set_input(name, inputs[name])

    def run_repeatedly(self, number: int) -> None:
        """Run ``number`` inferences and wait until the device has finished them."""
        # TVM's time_evaluator would run at one address of the stack only, which biases timings, and would add an
        # inference of its own to every call.
        for _ in range(number):
            self._module.run()
        self._device.sync()

    def event_time_s(self, number: int) -> float | None:
        """Return seconds per inference, measured by TVM's time_evaluator."""
        if not self._has_events:
            return None
        return float(self._module.module.time_evaluator("run", self._device, number=number, repeat=1)().mean)

    def run_by_kernel(self, inputs: Mapping[str, Array], *, with_runtime: bool = False) -> KernelCalls | None:
        """Return the kernel calls of one inference; ``None`` on devices with events, or in a build without profiler.

        The profiler runs three inferences before the one that it times.
        """
        calls = self._profiled_calls(inputs)
        if calls is None:
            return None
        return [(str(call["Name"]), call["Duration (us)"].microseconds * 1e-6) for call in calls]

    def kernel_shapes(self, inputs: Mapping[str, Array]) -> Sequence[str] | None:
        """Return the shapes of the arguments of every kernel call."""
        calls = self._profiled_calls(inputs)
        return None if calls is None else [_shapes(str(call.get("Argument Shapes", ""))) for call in calls]

    def _profiled_calls(self, inputs: Mapping[str, Array]) -> Sequence[Mapping[str, Any]] | None:
        # Not by ``tvm.contrib.debugger``, which leaves a folder behind for every network.
        create = tvm.get_global_func("tvm.graph_executor_debug.create", allow_missing=True)
        if self._has_events or create is None:
            return None
        if not self._has_profiler:
            # The executor with the profiler also runs the inferences that nobody observes from now on: at another
            # address they take up to a tenth more or less time.
            self._module, self._has_profiler = self._load(create), True
        self._set_inputs(inputs)
        calls: Sequence[Mapping[str, Any]] = self._module.module["profile"]([]).calls
        return calls


def _shapes(text: str) -> str:
    """Return types as the profiler writes them, ``float32[1, 3], float32[8]``, as shapes: ``1x3 8``."""
    return " ".join(each.replace(", ", "x") or "scalar" for each in re.findall(r"\[([^]]*)\]", text))


def artifact_digest(folder: Path) -> str:
    """Return a SHA-256 of what runs: kernels and graph as files, parameters sorted by name."""
    whole = hashlib.sha256()
    for name in (KERNELS, GRAPH):
        whole.update(hashlib.sha256((folder / name).read_bytes()).digest())
    # TVM writes parameters in an order that differs from process to process, so their file is not hashed as a whole.
    parameters = tvm.runtime.load_param_dict((folder / PARAMETERS).read_bytes())
    for name, array in sorted((str(name), array.numpy()) for name, array in parameters.items()):
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(hashlib.sha256(array.tobytes()).digest())
    return whole.hexdigest()


def planned_bytes(graph_json: str) -> int:
    """Return the size of the static memory plan: the largest tensor of every storage slot, without parameters."""
    graph = json.loads(graph_json)
    attributes = graph["attrs"]
    slots = attributes["storage_id"][1]
    parameters = {slots[graph["node_row_ptr"][index]] for index in graph["arg_nodes"]}
    sizes: dict[int, int] = {}
    for slot, shape, dtype in zip(slots, attributes["shape"][1], attributes["dltype"][1], strict=True):
        # A boolean has one bit but takes a byte.
        bits = tvm.runtime.DataType(dtype).bits
        sizes[slot] = max(sizes.get(slot, 0), math.prod(shape) * max(bits, 8) // 8)
    return sum(size for slot, size in sizes.items() if slot not in parameters)


def folder_bytes(folder: Path) -> int:
    """Return the size of the files ``GraphExecutable`` reads."""
    return sum((folder / name).stat().st_size for name in (KERNELS, GRAPH, PARAMETERS))
