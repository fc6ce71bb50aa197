"""Built networks on a device, through TVM's graph executor."""

import ctypes
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm.contrib import graph_executor

from passsearch.dialects.contract import Array, Artifact, Executable

KERNELS, GRAPH, PARAMETERS = "kernels.so", "graph.json", "parameters.bin"


class GraphExecutable(Executable):
    """One network loaded into a graph executor; the parameters live on the device once."""

    def __init__(self, artifact: Artifact, device: str) -> None:
        library = tvm.runtime.load_module(str(artifact.folder / KERNELS))
        kind, index = _device(device)
        self._device, self._has_events = tvm.device(kind, index), kind != "cpu"
        self._module = graph_executor.create((artifact.folder / GRAPH).read_text(), library, self._device)
        self._module.load_params((artifact.folder / PARAMETERS).read_bytes())

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Set the inputs, run once, copy the outputs to the host."""
        for name, array in inputs.items():
            if self._module.get_input_index(name) >= 0:  # an input that nothing reads is not in the graph
                self._module.set_input(name, array)
        self._module.run()
        return [self._module.get_output(index).numpy() for index in range(self._module.get_num_outputs())]

    def run_repeatedly(self, number: int) -> None:
        """Not by TVM's time_evaluator, which keeps one place on the stack and adds a run of its own to every call."""
        for _ in range(number):
            self._module.run()
        self._device.sync()

    def event_time_s(self, number: int) -> float | None:
        """By TVM's time_evaluator."""
        if not self._has_events:
            return None
        return float(self._module.module.time_evaluator("run", self._device, number=number, repeat=1)().mean)


class _ParallelGroup(ctypes.Structure):
    """``TVMParallelGroupEnv`` of tvm/runtime/c_backend_api.h."""

    _fields_ = (("sync_handle", ctypes.c_void_p), ("num_task", ctypes.c_int32))


_ParallelTask = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(_ParallelGroup), ctypes.c_void_p)


def parallel_tasks() -> int:
    """Tasks that TVM makes of one parallel loop, counted by launching one."""
    found: list[int] = []

    def task(_: int, group: Any, __: object) -> int:
        found.append(group.contents.num_task)
        return 0

    tvm._ffi.base._LIB.TVMBackendParallelLaunch(_ParallelTask(task), None, 0)
    return max(found)


def artifact_digest(folder: Path) -> str:
    """SHA-256 of what runs: kernels and graph as files, parameters in the order of their names."""
    whole = hashlib.sha256()
    for name in (KERNELS, GRAPH):
        whole.update(hashlib.sha256((folder / name).read_bytes()).digest())
    parameters = tvm.runtime.load_param_dict((folder / PARAMETERS).read_bytes())
    for name, array in sorted((str(name), array.numpy()) for name, array in parameters.items()):
        whole.update(f"{name} {array.dtype} {array.shape}".encode())
        whole.update(hashlib.sha256(array.tobytes()).digest())
    return whole.hexdigest()


def planned_bytes(graph_json: str) -> int:
    """Size of the static memory plan: the largest tensor of every storage slot, parameters left out."""
    graph = json.loads(graph_json)
    attributes = graph["attrs"]
    slots = attributes["storage_id"][1]
    parameters = {slots[graph["node_row_ptr"][index]] for index in graph["arg_nodes"]}
    sizes: dict[int, int] = {}
    for slot, shape, dtype in zip(slots, attributes["shape"][1], attributes["dltype"][1], strict=True):
        bits = tvm.runtime.DataType(dtype).bits
        sizes[slot] = max(sizes.get(slot, 0), math.prod(shape) * max(bits, 8) // 8)
    return sum(size for slot, size in sizes.items() if slot not in parameters)


def _device(name: str) -> tuple[str, int]:
    kind, _, index = name.partition(":")
    return kind, int(index or 0)


def folder_bytes(folder: Path) -> int:
    """Size of the files ``GraphExecutable`` reads."""
    return sum((folder / name).stat().st_size for name in (KERNELS, GRAPH, PARAMETERS))
