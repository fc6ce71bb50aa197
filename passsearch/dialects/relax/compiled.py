"""Run a built network in the user's own process, on tensors of PyTorch or arrays of numpy."""

import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from passsearch.core import MAIN
from passsearch.dialects.relax.constants import ALIGNMENT_BYTES
from passsearch.dialects.relax.executable import NETWORK
from passsearch.dialects.shared import parse_device
from passsearch.standalone.deployment.checked_files import Built
from passsearch.standalone.deployment.machine_pool import InputError, MachinePool
from passsearch.standalone.deployment.processor import use_all_cores
from passsearch.standalone.relax.deployment import cuda_libraries
from passsearch.standalone.relax.deployment.separate_weights import check_weights, read_all_weights
from passsearch.standalone.relax.deployment.size_choice import OPEN, SIZES, Choice, cut, pad


def open_network(built: Built, device: str) -> Callable[..., Any]:
    """Return a function of the network's inputs in order; the inputs must be on the device.

    Of a network of several sizes, a call takes the function of its size.

    Tensors are not copied (DLPack), except inputs that are not contiguous or not aligned to ``ALIGNMENT_BYTES``, and
    outputs whose memory is that of an input, of another output or of a constant: what is returned belongs to the
    caller. The function returns PyTorch tensors if an input is one, else copies as numpy arrays; several outputs are a
    tuple. Several threads may call it.

    Raises:
        DeploymentError: The library or a weight is not as it was built.
    """
    if device == "cpu":
        use_all_cores()
    else:
        cuda_libraries.load_runtime("cc")  # called only where there is no driver
    path = built.path(NETWORK)
    functions = [*built.inputs]
    for function in functions:
        check_weights(built, function)
    # TVM's own function keeps every library for the life of the process, with its weights.
    library = tvm_ffi.load_module(str(path), keep_module_alive=False)
    place = tvm.device(*parse_device(device))
    # A virtual machine runs one call at a time, and the function may be called by several threads.
    pool = MachinePool(partial(_machine, library, place, functions), None if device == "cpu" else 1)
    weights = read_all_weights(built.folder, functions)
    runs = {name: _runner(partial(pool.run, name), weights[name]) for name in functions}
    if not built.has(SIZES):
        return runs[MAIN]
    return _choosing(runs, Choice(json.loads(built.path(SIZES).read_text())), built.inputs)


def _machine(library: Any, place: Any, functions: Sequence[str]) -> Callable[..., Any]:
    """Return a virtual machine as a function of the name of an entry function and of its arguments."""
    machine = relax.VirtualMachine(library, place)
    calls = {name: machine[name] for name in functions}
    return lambda name, *arguments: calls[name](*arguments)


def _array(tensor: Any) -> Any:
    return np.asarray(tensor.detach().cpu() if hasattr(tensor, "detach") else tensor)


def _choosing(runs: Mapping[str, Callable[..., Any]], choice: Choice, inputs: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a function that takes the function of the size of its arguments."""
    names = [name for name, _, _ in choice.signature({**inputs})]

    def run(*tensors: Any) -> Any:
        given = dict(zip(names, tensors, strict=True))
        bucket = choice.exact(given)
        if bucket is not None:
            return runs[bucket["function"]](*tensors)
        if choice.record["open"] and not choice.record["padding"]:
            return runs[OPEN](*tensors)
        arrays = {name: _array(tensor) for name, tensor in given.items()}
        bucket = choice.padded(arrays)
        if bucket is None and not choice.record["open"]:
            raise InputError(choice.refusal(arrays))
        if bucket is None:
            return runs[OPEN](*tensors)
        padded = pad(arrays, bucket)
        outputs = runs[bucket["function"]](*(_like(padded[name], given[name]) for name in names))
        parts = cut(_flat(outputs), arrays, choice.record["padding"]["outputs"])
        return tuple(parts) if isinstance(outputs, tuple) else parts[0]

    return run


def _like(array: Any, other: Any) -> Any:
    """Return an array as a tensor of PyTorch where another one is one."""
    return sys.modules["torch"].from_numpy(array) if hasattr(other, "detach") else array


def _runner(call: Callable[..., Any], weights: Sequence[Any]) -> Callable[..., Any]:
    """Return a function of tensors of PyTorch or arrays of numpy."""
    constant: frozenset[int] | None = None

    def run(*tensors: Any) -> Any:
        nonlocal constant
        # A user who passes a PyTorch tensor has imported PyTorch, so it need not be imported here.
        torch = sys.modules.get("torch")
        if torch is None or not any(isinstance(tensor, torch.Tensor) for tensor in tensors):
            return _convert_outputs(call(*map(_to_tvm, tensors), *weights), _to_numpy)
        given = [*map(_to_tvm, tensors), *weights]
        outputs = _convert_outputs(call(*given), torch.from_dlpack)
        if constant is None:
            constant = _in_one_place(outputs, _convert_outputs(call(*given), torch.from_dlpack))
        held = [_extent(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor)]
        return _own(outputs, held, constant)

    return run


def _flat(outputs: Any) -> list[Any]:
    return [tensor for each in outputs for tensor in _flat(each)] if isinstance(outputs, tuple) else [outputs]


def _extent(tensor: Any) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and of that behind its last one."""
    return tensor.data_ptr(), tensor.data_ptr() + tensor.untyped_storage().nbytes()


def _in_one_place(outputs: Any, again: Any) -> frozenset[int]:
    """Return the numbers of the outputs that two calls have put into the same memory, which is that of constants."""
    pairs = zip(_flat(outputs), _flat(again), strict=True)
    return frozenset(place for place, (one, other) in enumerate(pairs) if one.data_ptr() == other.data_ptr())


def _own(outputs: Any, held: list[tuple[int, int]], constant: frozenset[int]) -> Any:
    """Return the outputs, with a copy of each whose memory is not its own.

    Args:
        outputs: Tensors, or tuples of them.
        held: First and last address of memory that is in use, such as that of the inputs; outputs are added.
        constant: Numbers of the outputs that the network returns in the same memory at every call.
    """
    numbers = itertools.count()

    def own(output: Any) -> Any:
        if isinstance(output, tuple):
            return tuple(map(own, output))
        begin, end = _extent(output)
        if next(numbers) in constant or any(begin < last and first < end for first, last in held):
            return output.clone()
        held.append((begin, end))
        return output

    return own(outputs)


def _to_tvm(tensor: Any) -> Any:
    """Return a tensor as the virtual machine accepts it: without gradient, contiguous and aligned."""
    # The virtual machine crashes on a tensor that is not aligned, so such a tensor is copied.
    if hasattr(tensor, "detach"):
        plain = tensor.detach().resolve_neg().contiguous()
        return tvm_ffi.from_dlpack(plain if plain.data_ptr() % ALIGNMENT_BYTES == 0 else plain.clone())
    array = np.asarray(tensor, order="C")
    # DLPack cannot say that an array must not be written to, so numpy refuses such an array.
    is_usable = array.flags.writeable and array.ctypes.data % ALIGNMENT_BYTES == 0
    return tvm_ffi.from_dlpack(array) if is_usable else tvm.runtime.tensor(array)


def _to_numpy(tensor: Any) -> Any:
    return tensor.numpy()


def _convert_outputs(outputs: Any, convert: Callable[[Any], Any]) -> Any:
    if isinstance(outputs, tvm.runtime.Tensor):
        return convert(outputs)
    return tuple(_convert_outputs(output, convert) for output in outputs)
