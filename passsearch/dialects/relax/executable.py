"""Built networks on a device, run by TVM's virtual machine."""

import hashlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from passsearch.core import MAIN
from passsearch.dialects.bits import bits_of
from passsearch.dialects.contract import RUNTIME, Array, Artifact, Executable, KernelCalls, KernelRun, KernelRuns
from passsearch.dialects.shared import parse_device
from passsearch.standalone.relax.cpu_schedules import PACKED
from passsearch.standalone.relax.deployment.separate_weights import TABLE, read_weights

NETWORK, TIMED = "network.so", "passsearch_timed"
_NUMBERS = itertools.count()
"""Numbers for the names of saved calls: two cases may call one function on inputs of other sizes."""

CAPTURE = "vm.builtin.cuda_graph.run_or_capture"
"""Records the launches of a part of the network, or launches what it has recorded."""

BUILTIN = "vm."
"""Begin of the names of functions that belong to the virtual machine."""


class VirtualMachineExecutable(Executable):
    """A network in a virtual machine, whose constants are the weights."""

    def __init__(self, artifact: Artifact, device: str) -> None:
        self._function, self._name = MAIN, TIMED
        kind, index = parse_device(device)
        self._device = tvm.device(kind, index)
        library = tvm.runtime.load_module(str(artifact.folder / NETWORK))
        self._machine = relax.VirtualMachine(library, self._device)
        self._folder, self._weights = artifact.folder, read_weights(artifact.folder, MAIN)
        self._has_events = kind != "cpu"
        self._timed: Any = None
        self._held: Mapping[str, Any] = {}

    def entry(self, function: str) -> "VirtualMachineExecutable":
        """Return an executable of another entry function; the files of weights that both take are in memory once."""
        other = copy(self)
        other._function, other._timed, other._name = function, None, f"{TIMED}_{next(_NUMBERS)}"
        other._held, other._weights = {}, read_weights(self._folder, function)
        return other

    def run(self, inputs: Mapping[str, Array]) -> Sequence[Array]:
        """Set the inputs, run once, copy the outputs to the host."""
        arrays = self._arrays(inputs)
        # A saved function has its inputs bound: ``run_repeatedly`` copies none, as a deployment would not.
        self._machine.save_function(self._function, self._name, *arrays, include_return=False)
        self._timed = self._machine[self._name]
        self._held = dict(zip(self._parameters(), arrays, strict=False))
        return [tensor.numpy() for tensor in flatten(self._machine[self._function](*arrays))]

    def held_inputs(self) -> Mapping[str, Array]:
        """Return the inputs of the last run as they are in memory."""
        return {name: tensor.numpy() for name, tensor in self._held.items()}

    def _parameters(self) -> list[str]:
        """Return the names of the function's inputs in order; its weights, if it takes some, come after them."""
        number = self._machine._get_function_arity(self._function) - len(self._weights)
        return [self._machine._get_function_param_name(self._function, place) for place in range(number)]

    def _arrays(self, inputs: Mapping[str, Array]) -> list[Any]:
        """Return the inputs on the device and the weights, in the order of the function's parameters."""
        # The virtual machine takes inputs by place, and only the library knows their order.
        arrays = [tvm.runtime.tensor(inputs[name], self._device) for name in self._parameters()]
        return [*arrays, *self._weights]

    def run_repeatedly(self, number: int) -> None:
        """Run ``number`` inferences and wait until the device has finished them; outputs are not copied."""
        for _ in range(number):
            self._timed()
        self._device.sync()

    def event_time_s(self, number: int) -> float | None:
        """Return seconds per inference, measured by TVM's time_evaluator."""
        # Not on a CPU: the evaluator would run at one address of the stack only, which biases timings.
        if not self._has_events:
            return None
        return float(self._machine.time_evaluator(self._name, self._device, number=number, repeat=1)().mean)

    def run_by_kernel(self, inputs: Mapping[str, Array], *, with_runtime: bool = False) -> KernelCalls | None:
        """Run one inference and return its kernel calls; ``None`` on devices that run kernels later than the call."""
        if self._has_events:
            return None
        calls: list[tuple[str, float]] = []
        begin = 0.0

        def instrument(_function: Any, name: str, before: bool, *_: Any) -> int:
            nonlocal begin
            if before:
                begin = time.perf_counter()
            elif not name.startswith(BUILTIN):
                calls.append((name.removesuffix(PACKED), time.perf_counter() - begin))
            elif with_runtime:
                calls.append((RUNTIME + name.rpartition(".")[2], time.perf_counter() - begin))
            return 0  # the machine goes on with the call

        self._observe(instrument, inputs)
        return calls

    def kernel_shapes(self, inputs: Mapping[str, Array]) -> Sequence[str] | None:
        """Run one inference and return the shapes of the arguments of every kernel call."""
        if self._has_events:
            return None
        shapes: list[str] = []

        def instrument(_function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
            if not before and not name.startswith(BUILTIN):
                tensors = [each for each in arguments if isinstance(each, tvm.runtime.Tensor)]
                shapes.append(" ".join("x".join(map(str, each.shape)) or "scalar" for each in tensors))
            return 0  # the machine goes on with the call

        self._observe(instrument, inputs)
        return shapes

    def kernel_bits(self, inputs: Mapping[str, Array]) -> Sequence[tuple[str, str]] | None:
        """Run one inference and return by kernel call a digest of its last argument, which it writes."""
        if self._has_events:
            return None
        bits: list[tuple[str, str]] = []

        def instrument(_function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
            written = [each for each in arguments if isinstance(each, tvm.runtime.Tensor)]
            if not before and written and not name.startswith(BUILTIN):
                bits.append((name.removesuffix(PACKED), bits_of([written[-1].numpy()])))
            return 0  # the machine goes on with the call

        self._observe(instrument, inputs)
        return bits

    def kernel_runs(self, inputs: Mapping[str, Array]) -> KernelRuns | None:
        """Run one inference; return by kernel its calls, to be repeated alone on copies of their data."""
        recorder = CallRecorder()
        self._observe(recorder.instrument, inputs)
        return {name: KernelRun(len(own), partial(self._repeat, own)) for name, own in recorder.calls.items()} or None

    def _observe(self, instrument: Callable[..., int], inputs: Mapping[str, Array]) -> None:
        """Run one inference, and call ``instrument`` before and after every call."""
        arrays = self._arrays(inputs)
        self._machine.set_instrument(instrument)
        try:
            self._machine[self._function](*arrays)
        finally:
            self._machine.set_instrument(None)

    def _repeat(self, calls: Sequence[tuple[Any, Sequence[Any]]], number: int) -> None:
        for _ in range(number):
            for function, arguments in calls:
                function(*arguments)
        self._device.sync()


class CallRecorder:
    """Records the kernel calls of one inference with copies of their arguments.

    Copies, because the memory of an intermediate result serves for later ones as well: without them a kernel would read
    what another one has written, and repeated calls would feed each other.

    Attributes:
        calls: Function and arguments of every call in order, by name of the kernel.
    """

    def __init__(self) -> None:
        """Create a recorder that has no calls yet."""
        self.calls: dict[str, list[tuple[Any, Sequence[Any]]]] = {}
        self._before_capture: dict[str, int] = {}

    def instrument(self, function: Any, name: str, before: bool, _result: Any, *arguments: Any) -> int:
        """Record a call; the virtual machine calls this before and after every call."""
        if name == CAPTURE:
            numbers = {kernel: len(own) for kernel, own in self.calls.items()}
            if before:
                self._before_capture = numbers
            else:
                self._forget_warm_up(numbers)
        elif before and not name.startswith(BUILTIN) and isinstance(function, tvm_ffi.Function):
            self.calls.setdefault(name.removesuffix(PACKED), []).append((function, [_copy(each) for each in arguments]))
        return 0  # the machine goes on with the call

    def _forget_warm_up(self, numbers: Mapping[str, int]) -> None:
        """Forget the first half of the calls since a capture began: what is captured runs once before."""
        for name, number in numbers.items():
            start = self._before_capture.get(name, 0)
            del self.calls[name][start : start + (number - start) // 2]


def _copy(argument: Any) -> Any:
    if not isinstance(argument, tvm.runtime.Tensor):
        return argument
    return tvm.runtime.empty(argument.shape, argument.dtype, argument.device).copyfrom(argument)


def flatten(outputs: Any) -> list[Any]:
    """Return the tensors of nested tuples in order."""
    if isinstance(outputs, tvm.runtime.Tensor):
        return [outputs]
    return [tensor for output in outputs for tensor in flatten(output)]


def artifact_digest(folder: Path) -> str:
    """Return a SHA-256 of the library, and of the digests of weights that are beside it."""
    whole = hashlib.sha256((folder / NETWORK).read_bytes())
    if (folder / TABLE).exists():
        whole.update((folder / TABLE).read_bytes())
    return whole.hexdigest()
