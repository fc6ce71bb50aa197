"""Kernels of a network one by one: listed, taken out into modules of their own, built and run alone."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.s_tir.stmt import SBlock

from passsearch.core import MAIN, TensorType
from passsearch.dialects.case_inputs import random_inputs
from passsearch.dialects.contract import Array, CompileError, Kernel, KernelExecutable
from passsearch.dialects.relax.errors import COMPILER_ERRORS
from passsearch.dialects.shared import error_line
from passsearch.standalone.relax.deployment.code_generation import CPU, generate_code
from passsearch.standalone.relax.deployment.separate_weights import entries

CALL = "relax.call_tir"

COLD_TYPES = frozenset({"float16", "float32", "float64", "int8", "uint8"})
"""Types of constants that a kernel alone reads from a buffer. Other integers may be indices, which must be valid."""

ALIGNMENT = 64
"""Bytes to whose multiples TVM aligns tensors, which kernels rely on."""

MOST_STRETCHES = 1000
"""Largest number of stretches of the buffer; constants so small that they do not fill it then take no time to read."""

EVENT_RUNS = 10
"""Number of runs between two events of a GPU."""


def list_kernels(module: tvm.IRModule, weights: Mapping[str, float]) -> list[Kernel]:
    """Return the functions of loops that entry functions call, in the order of their first calls.

    Functions that take more than tensors, or tensors of symbolic sizes, are left out.

    Args:
        module: The module.
        weights: Weight of a call by entry function; 1 for a function without one.
    """
    calls: dict[Any, list[Any]] = {}
    number: dict[Any, float] = {}
    for entry in entries(module):
        for call in filter(_is_static, _calls(module[entry])):
            name = call.args[0]
            calls.setdefault(name, []).append(call)
            number[name] = number.get(name, 0) + weights.get(entry.name_hint, 1)
    return [_kernel(module, own, number=number[name]) for name, own in calls.items()]


def constant_bytes(module: tvm.IRModule) -> int:
    """Return the size of all constants that kernels read; one that several calls read counts once."""
    arguments = (argument for call in _all_calls(module) for argument in call.args[1].fields)
    constants = {argument.value.__chandle__(): argument for argument in arguments if _is_constant(argument)}
    return sum(_bytes(constant.ty) for constant in constants.values())


def isolate(module: tvm.IRModule, name: str) -> tvm.IRModule:
    """Return a module whose main calls one kernel once; what is computed in the network becomes a parameter.

    An argument that is a constant in some calls only becomes a parameter as well, because schedules pack only what is
    constant in all calls.
    """
    calls = [call for call in _all_calls(module) if call.args[0].name_hint == name]
    call, constants = calls[0], _constant_places(calls)
    parameters = [
        argument if place in constants else relax.Var(f"x{place}", argument.ty)
        for place, argument in enumerate(call.args[1].fields)
    ]
    builder = relax.BlockBuilder()
    variable = builder.add_func(module[call.args[0]], name)
    with builder.function(MAIN, [value for value in parameters if isinstance(value, relax.Var)]):
        with builder.dataflow():
            isolated = relax.Call(call.op, [variable, relax.Tuple(parameters)], call.attrs, call.ty_args)
            result = builder.emit_output(isolated)
        builder.emit_func_output(result)
    return builder.get()


@dataclass(frozen=True)
class _ArgumentRows:
    """Arguments and results of one run after the other, whose constants follow each other in the buffer.

    Attributes:
        rows: Arguments and results by run.
        bytes: Bytes of the constants of one run.
    """

    rows: Sequence[Sequence[Any]]
    bytes: int


class KernelArguments:
    """Arguments of the variants of one kernel.

    In a network all other constants are read between two runs of a kernel, so its own are no longer in the caches
    that these fill. Alone it therefore takes them from a buffer of that size, one stretch after the other, whichever
    variant runs; only outputs are computed with the constants themselves.
    """

    def __init__(self, cold_bytes: int, device: tvm.runtime.Device) -> None:
        """Prepare arguments.

        Args:
            cold_bytes: Size of the buffer; 0 for runs with the kernel's own constants.
            device: Device that has the arguments.
        """
        self._cold_bytes, self.device = cold_bytes, device
        self._constants: list[tuple[Any, Any]] = []
        self._inputs: dict[tuple[int, TensorType], Any] = {}
        self._position = 0

    def own(self, call: Any) -> list[Any]:
        """Return the arguments and results of a call with its own constants."""
        results = [tvm.runtime.empty(kind.shape, kind.dtype, self.device) for kind in _output_types(call)]
        arguments = [
            self._constant(argument.value.numpy())
            if _is_constant(argument)
            else self._input(place, _tensor_type(argument.ty))
            for place, argument in enumerate(call.args[1].fields)
        ]
        return [*arguments, *results]

    def argument_rows(self, call: Any, own: Sequence[Any]) -> _ArgumentRows:
        """Return arguments and results of one run after the other, with ``own`` where the buffer has none."""
        kinds = {
            place: _tensor_type(argument.ty)
            for place, argument in enumerate(call.args[1].fields)
            if _is_constant(argument) and str(argument.ty.dtype) in COLD_TYPES
        }
        sizes = [-(-_bytes(call.args[1].fields[place].ty) // ALIGNMENT) * ALIGNMENT for place in kinds]
        number = min(self._cold_bytes // sum(sizes), MOST_STRETCHES) if sum(sizes) else 0
        if number < 2:
            return _ArgumentRows([own], 0)
        begin, rows = 0, []
        for _ in range(number):
            row = list(own)
            for (place, kind), size in zip(kinds.items(), sizes, strict=True):
                row[place] = _view(self._buffer, begin, kind)
                begin += size
            rows.append(row)
        return _ArgumentRows(rows, sum(sizes))

    def next_row(self, arguments: _ArgumentRows) -> Sequence[Any]:
        """Return the arguments and results whose constants lie after those of the last run of any variant."""
        if not arguments.bytes:
            return arguments.rows[0]
        # Packed weights of variants differ in size, so that only bytes say what was read.
        place = -(-self._position // arguments.bytes)
        place = place if place < len(arguments.rows) else 0
        self._position = (place + 1) * arguments.bytes
        return arguments.rows[place]

    @cached_property
    def _buffer(self) -> Array:
        """An aligned array of bytes that are ones in float32, and numbers in all other of ``COLD_TYPES``."""
        values = np.ones(self._cold_bytes // 4 + ALIGNMENT, np.float32).view(np.uint8)
        begin = -values.ctypes.data % ALIGNMENT
        return values[begin : begin + self._cold_bytes]

    def _constant(self, array: Array) -> Any:
        for known, tensor in self._constants:
            if known.shape == array.shape and np.array_equal(known, array):
                return tensor
        self._constants.append((array, tvm.runtime.tensor(array, self.device)))
        return self._constants[-1][1]

    def _input(self, place: int, kind: TensorType) -> Any:
        if (place, kind) not in self._inputs:
            values = random_inputs({"x": kind}, seed=place)
            self._inputs[place, kind] = tvm.runtime.tensor(values["x"], self.device)
        return self._inputs[place, kind]


def _view(buffer: Array, begin: int, kind: TensorType) -> Any:
    """Return a tensor in a buffer."""
    shape = [size or 1 for size in kind.shape]
    size = math.prod(shape) * np.dtype(kind.dtype).itemsize
    return tvm.runtime.from_dlpack(buffer[begin : begin + size].view(kind.dtype).reshape(shape))


class IsolatedKernel(KernelExecutable):
    """The kernel that the main function of a module calls, taken out of its network.

    Attributes:
        function: The function of loops, as it is scheduled.
    """

    def __init__(self, module: tvm.IRModule, arguments: KernelArguments) -> None:
        """Prepare the kernel; ``build_kernels`` generates its code."""
        (self._call,) = _calls(module[MAIN])
        self.function = module[self._call.args[0]].with_attr("global_symbol", "kernel")
        self.digest = f"{tvm_ffi.structural_hash(self.function):016x}"
        self._arguments = arguments
        self._run: Any = None
        self._timer: Any = None

    # Copied to the device before the first run, where no other search runs then.
    @cached_property
    def _own(self) -> list[Any]:
        """Arguments and results with the kernel's own constants."""
        return self._arguments.own(self._call)

    @cached_property
    def _argument_rows(self) -> _ArgumentRows:
        return self._arguments.argument_rows(self._call, self._own)

    def load(self, library: Any, name: str) -> None:
        """Take the code from a library that has it under this name."""
        self._run = library[name]
        if self._arguments.device.type != "cpu":
            self._timer = library.time_evaluator(name, self._arguments.device, number=EVENT_RUNS)

    def run(self) -> None:
        """Run once, on the next stretch of the buffer."""
        self._run(*self._arguments.next_row(self._argument_rows))

    def event_time_s(self) -> float | None:
        """Return the mean of several runs in a row, which find the weights in the GPU's cache if that is large enough.

        ``None`` on a CPU.
        """
        return None if self._timer is None else float(self._timer(*self._own).mean)

    def outputs(self) -> list[Array]:
        """Run once on the kernel's own constants and return the outputs."""
        self._run(*self._own)
        return [tensor.numpy() for tensor in self._own[len(self._call.args[1].fields) :]]


def build_kernels(kernels: Sequence[IsolatedKernel], target: tvm.target.Target, *, threads: int) -> None:
    """Generate the code of kernels, in memory.

    For a CPU each is a module of its own, for a GPU all of them are one (``code_generation.CPU`` says why).

    Args:
        kernels: The kernels.
        target: What they are compiled for.
        threads: Number of threads that generate code for a CPU.

    Raises:
        CompileError: TVM refuses, for example a tile that needs more memory than a block of threads may share.
    """
    functions = {f"kernel{place}": each.function for place, each in enumerate(kernels)}
    named = {name: function.with_attr("global_symbol", name) for name, function in functions.items()}
    modules = [{name: each} for name, each in named.items()] if CPU in target.keys else [named]
    loads = {name: each.load for name, each in zip(named, kernels, strict=True)}

    def load(place: int, library: Any) -> None:
        for name in modules[place]:
            loads[name](library, name)

    try:
        generate_code(modules, target, threads=threads, use=load)
    except COMPILER_ERRORS as error:
        raise CompileError(error_line(error)) from error


def _kernel(module: tvm.IRModule, calls: Sequence[Any], *, number: float) -> Kernel:
    call, constants = calls[0], _constant_places(calls)
    function, arguments = module[call.args[0]], call.args[1].fields
    # Without the name, so that equal functions of two networks are one kernel.
    bare = function.without_attr("global_symbol") if "global_symbol" in (function.attrs or {}) else function
    digest = f"{tvm_ffi.structural_hash(bare):016x}-{'.'.join(map(str, sorted(constants)))}"
    kinds = [*(argument.ty for argument in arguments), *_flat_types(call.ty_args[0])]
    size = sum(map(_bytes, kinds))
    return Kernel(call.args[0].name_hint, digest, number, _operations(function), size, bool(constants))


def _constant_places(calls: Iterable[Any]) -> frozenset[int]:
    """Return the places of the arguments that are constants in all of these calls."""
    places = ({place for place, each in enumerate(call.args[1].fields) if _is_constant(each)} for call in calls)
    return frozenset.intersection(*map(frozenset, places))


def _all_calls(module: tvm.IRModule) -> Iterator[Any]:
    """Yield the calls of functions of loops by all entry functions, in order."""
    for entry in entries(module):
        yield from _calls(module[entry])


def _calls(function: Any) -> Iterator[Any]:
    """Yield the calls of functions of loops, in order."""
    for block in function.body.blocks:
        for binding in block.bindings:
            value = getattr(binding, "value", None)
            if isinstance(value, relax.Call) and getattr(value.op, "name", "") == CALL and len(value.args) == 2:
                yield value


def _operations(function: tirx.PrimFunc) -> int:
    """Return the additions and multiplications of the largest sum of products; 0 for a function without one."""
    largest = 0

    def visit(block: Any) -> None:
        nonlocal largest
        if block.init is not None and len(block.reads) > 1:
            largest = max(largest, 2 * math.prod(int(axis.dom.extent) for axis in block.iter_vars))

    tvm_ffi.structural_walk(function.body, (SBlock, visit))
    return largest


def _is_static(call: Any) -> bool:
    """Return True if all arguments and results of a call have fixed sizes."""
    kinds = [*(argument.ty for argument in call.args[1].fields), *_flat_types(call.ty_args[0])]
    return all(isinstance(size, tirx.IntImm) for kind in kinds for size in kind.shape.values)


def _is_constant(argument: Any) -> bool:
    return isinstance(argument, tvm.ir.GenericConst)


def _output_types(call: Any) -> list[TensorType]:
    return [_tensor_type(kind) for kind in _flat_types(call.ty_args[0])]


def _flat_types(kind: Any) -> Sequence[Any]:
    return list(kind.fields) if hasattr(kind, "fields") else [kind]


def _tensor_type(kind: Any) -> TensorType:
    return TensorType(tuple(int(size) for size in kind.shape.values), str(kind.dtype))


def _bytes(kind: Any) -> int:
    tensor = _tensor_type(kind)
    return math.prod(size or 1 for size in tensor.shape) * np.dtype(tensor.dtype).itemsize
