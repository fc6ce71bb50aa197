"""Built networks on a device, through TVM's virtual machine."""

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.base import _LOADED_LIBS

from passsearch.dialects.contract import Array, Artifact, Executable

NETWORK, TIMED = "network.so", "passsearch_timed"


class VirtualMachineExecutable(Executable):
    """One network loaded into a virtual machine; the weights live in its constants."""

    def __init__(self, artifact: Artifact, device: str) -> None:
        kind, _, index = device.partition(":")
        self._device = tvm.device(kind, int(index or 0))
        library = tvm.runtime.load_module(str(artifact.folder / NETWORK))
        self._machine = relax.VirtualMachine(library, self._device)
        self._has_events = kind != "cpu"
        self._timed: Any = None

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Set the inputs, run once, copy the outputs to the host."""
        number = self._machine._get_function_arity("main")
        names = [self._machine._get_function_param_name("main", place) for place in range(number)]
        arrays = [tvm.runtime.tensor(inputs[name], self._device) for name in names]
        self._machine.save_function("main", TIMED, *arrays, include_return=False)
        self._timed = self._machine[TIMED]
        return [each.numpy() for each in _flat(self._machine["main"](*arrays))]

    def run_repeatedly(self, number: int) -> None:
        """Outputs stay where they are."""
        for _ in range(number):
            self._timed()
        self._device.sync()

    def event_time_s(self, number: int) -> float | None:
        """By TVM's time_evaluator; not on a CPU, where it keeps one place on the stack."""
        if not self._has_events:
            return None
        return float(self._machine.time_evaluator(TIMED, self._device, number=number, repeat=1)().mean)


def _flat(outputs: Any) -> list[Any]:
    """Tensors, of tuples in tuples too."""
    if isinstance(outputs, tvm.runtime.Tensor):
        return [outputs]
    return [each for output in outputs for each in _flat(output)]


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

    _LOADED_LIBS["tvm_runtime"].TVMBackendParallelLaunch(_ParallelTask(task), None, 0)
    return max(found)


def artifact_digest(folder: Path) -> str:
    """SHA-256 of the library."""
    return hashlib.sha256((folder / NETWORK).read_bytes()).hexdigest()
