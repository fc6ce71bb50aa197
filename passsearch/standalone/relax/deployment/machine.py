"""A virtual machine with the memory of its inputs and outputs.

A call that allocates takes as long as a decoder of one token: the system gives every page anew. So a machine keeps
tensors for its inputs, and its outputs are the memory that TVM's pool has given and gets back.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
import tvm
from tvm import relax

BRANCH = "vm.builtin.read_if_cond"
"""What a virtual machine calls where a network has branches."""
NUMPY_OWN = 1
"""``isbuiltin`` of the types that numpy has itself, which alone it exchanges by DLPack."""
ALIGNMENT_BYTES = 64
"""Generated code reads whole vectors from the start of its arguments (``kAllocAlignment`` of TVM's runtime)."""


class Machine:
    """A virtual machine, which runs one call at a time.

    Attributes:
        inputs: The tensors of the last call, if they are kept.
    """

    def __init__(self, library: Any, place: Any, functions: Sequence[str], *, keeps: bool = False) -> None:
        """Make the machine.

        Args:
            library: The built network.
            place: The device.
            functions: Names of the entry functions.
            keeps: Whether the tensors of the last call are kept. Arrays are then always copied, so that it can be seen
                whether the network has written to them.
        """
        self._machine, self._place, self._keeps = relax.VirtualMachine(library, place), place, keeps
        self._is_cpu = place.dlpack_device_type() == tvm.cpu().dlpack_device_type()
        self._calls = {name: self._machine[name] for name in functions}
        # The same output may be a constant in one branch, and be computed in the other.
        self._has_branches = BRANCH in library["stats"]()
        self._copies: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._first: dict[tuple[str, Any], list[Any]] = {}
        self._constant: dict[tuple[str, Any], Set[int]] = {}
        self.inputs: list[Any] = []

    def parameters(self, function: str) -> list[str]:
        """Return the names of a function's inputs and weights in order."""
        count = self._machine._get_function_arity(function)
        return [self._machine._get_function_param_name(function, place) for place in range(count)]

    def run(self, function: str, inputs: Sequence[Any], weights: Sequence[Any], view: Callable[[Any], Any]) -> Any:
        """Run a function.

        Args:
            function: Its name.
            inputs: Arrays; or tensors of PyTorch on the device, contiguous and aligned.
            weights: Tensors of TVM.
            view: Function that returns a tensor of TVM as an array or a tensor of PyTorch, if possible without a copy.

        Returns:
            The outputs as nested tuples of what ``view`` returns. They belong to the caller: where memory is that of an
            input, of another output or of a constant, it is copied.
        """
        taken = [self._taken((function, place), each) for place, each in enumerate(inputs)]
        self.inputs = [tensor for tensor, _ in taken] if self._keeps else []
        outputs = _mapped(self._calls[function](*(tensor for tensor, _ in taken), *weights), view)
        held = [memory for _, memory in taken if memory is not None]
        shared = self._shared((function, view), list(leaves(outputs)), held)
        numbers = itertools.count()
        return _mapped(outputs, lambda output: _copied(output) if next(numbers) in shared else output)

    def _taken(self, key: tuple[str, int], value: Any) -> tuple[Any, Any]:
        """Return the tensor of an input, and its memory as an array or a tensor of PyTorch if it outlives the call."""
        if hasattr(value, "data_ptr"):
            return tvm.runtime.from_dlpack(value), value
        # numpy gives arrays without elements any strides.
        if not self._is_cpu or not value.size or value.dtype.isbuiltin != NUMPY_OWN:
            return tvm.runtime.tensor(value, self._place), None
        # DLPack cannot say that an array must not be written to, so numpy refuses such an array.
        flags = value.flags
        if flags.writeable and flags.c_contiguous and not self._keeps and value.ctypes.data % ALIGNMENT_BYTES == 0:
            return tvm.runtime.from_dlpack(value), value
        tensor, memory = self._copies.get(key, (None, None))
        if memory is None or memory.shape != value.shape or memory.dtype != value.dtype:
            memory = _aligned(value.shape, value.dtype)
            tensor = tvm.runtime.from_dlpack(memory)
            self._copies[key] = tensor, memory
        np.copyto(memory, value)
        return tensor, memory

    def _shared(self, key: tuple[str, Any], outputs: list[Any], inputs: list[Any]) -> Set[int]:
        """Return the numbers of the outputs whose memory is not their own; the key is of a function and a view."""
        if self._has_branches:
            return {*range(len(outputs))}
        constant = self._constant.get(key)
        if constant is None:
            # What a second call puts into the same memory, while that of the first one is held, is constant.
            first = self._first.pop(key, None)
            if first is None:
                self._first[key] = outputs
                return {*range(len(outputs))}
            pairs = enumerate(zip(first, outputs))
            constant = {place for place, (one, other) in pairs if _extent(one) == _extent(other)}
            self._constant[key] = constant
        shared = {*constant}
        extents = [(*_extent(each), place) for place, each in enumerate([*outputs, *inputs])]
        end, holder = 0, 0
        for begin, behind, place in sorted(extents):
            if begin < end:
                shared |= {place, holder}
            if behind > end:
                end, holder = behind, place
        return shared


def to_numpy(tensor: Any) -> Any:
    """Return a tensor as an array, which is a copy where numpy cannot hold its type or the device's memory."""
    is_plain = tensor.device.type == "cpu" and hasattr(np, str(tensor.dtype))
    array = np.from_dlpack(tensor) if is_plain else None
    # numpy before 2.2 makes such an array read-only.
    return tensor.numpy() if array is None or not array.flags.writeable else array


def leaves(outputs: Any) -> Any:
    """Yield the items of nested tuples in order."""
    for each in [outputs] if hasattr(outputs, "shape") else outputs:
        if hasattr(each, "shape"):
            yield each
        else:
            yield from leaves(each)


def _mapped(outputs: Any, function: Callable[[Any], Any]) -> Any:
    if hasattr(outputs, "shape"):
        return function(outputs)
    return tuple(_mapped(each, function) for each in outputs)


def _copied(output: Any) -> Any:
    return output.clone() if hasattr(output, "clone") else output.copy()


def _aligned(shape: Sequence[int], dtype: Any) -> Any:
    """Return an array whose first byte TVM's kernels can read a vector from."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT_BYTES
    return memory[begin : begin + size].view(dtype).reshape(shape)


def _extent(memory: Any) -> tuple[int, int]:
    """Return the addresses of the first byte of an array or a tensor of PyTorch, and of that behind its last one."""
    begin = memory.data_ptr() if hasattr(memory, "data_ptr") else memory.ctypes.data
    return begin, begin + memory.nbytes
