"""Run a built network in the user's own process, on tensors of PyTorch or arrays of numpy."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from passsearch.core import MAIN
from passsearch.dialects.relax.executable import NETWORK
from passsearch.dialects.shared import parse_device
from passsearch.standalone.deployment.checked_files import Built
from passsearch.standalone.deployment.machine_pool import InputError, MachinePool
from passsearch.standalone.deployment.processor import use_all_cores
from passsearch.standalone.relax.deployment import cuda_libraries
from passsearch.standalone.relax.deployment.machine import ALIGNMENT_BYTES, Machine, leaves, to_numpy
from passsearch.standalone.relax.deployment.separate_weights import check_weights, read_all_weights
from passsearch.standalone.relax.deployment.size_choice import OPEN, SIZES, Choice, cut, pad


def open_network(built: Built, device: str) -> Callable[..., Any]:
    """Return a function of the network's inputs in order; the inputs must be on the device.

    Of a network of several sizes, a call takes the function of its size.

    Tensors are not copied (DLPack), except inputs that are not contiguous or not aligned to ``ALIGNMENT_BYTES``, and
    outputs whose memory is that of an input, of another output or of a constant: what is returned belongs to the
    caller. The function returns PyTorch tensors if an input is one, else numpy arrays; several outputs are a tuple.
    Several threads may call it.

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
    pool = MachinePool(lambda: Machine(library, place, functions).run, None if device == "cpu" else 1)
    weights = read_all_weights(built.folder, functions)
    runs = {name: _runner(partial(pool.run, name), weights[name]) for name in functions}
    if not built.has(SIZES):
        return runs[MAIN]
    return _choosing(runs, Choice(json.loads(built.path(SIZES).read_text())), built.inputs)


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
        parts = cut(list(leaves(outputs)), arrays, choice.record["padding"]["outputs"])
        return tuple(parts) if isinstance(outputs, tuple) else parts[0]

    return run


def _like(array: Any, other: Any) -> Any:
    """Return an array as a tensor of PyTorch where another one is one."""
    return sys.modules["torch"].from_numpy(array) if hasattr(other, "detach") else array


def _runner(run: Callable[..., Any], weights: Sequence[Any]) -> Callable[..., Any]:
    """Return a function of tensors of PyTorch or arrays of numpy; ``run`` is that of a machine for one function."""

    def call(*tensors: Any) -> Any:
        # A user who passes a PyTorch tensor has imported PyTorch, so it need not be imported here.
        torch = sys.modules.get("torch")
        if torch is None or not any(isinstance(tensor, torch.Tensor) for tensor in tensors):
            return run([np.asarray(tensor) for tensor in tensors], weights, to_numpy)
        return run([_plain(tensor) for tensor in tensors], weights, torch.from_dlpack)

    return call


def _plain(tensor: Any) -> Any:
    """Return a tensor of PyTorch as a machine takes it: without gradient, contiguous and aligned."""
    if not hasattr(tensor, "detach"):
        return np.asarray(tensor)
    plain = tensor.detach().resolve_neg().contiguous()
    return plain if plain.data_ptr() % ALIGNMENT_BYTES == 0 else plain.clone()
