"""A built network in the user's own process, on tensors of whatever framework they are of."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from passsearch.dialects.relax.executable import NETWORK

ALIGNED = 64
"""Bytes; generated code reads vectors from its arguments' beginning on (``kAllocAlignment`` of TVM's runtime)."""


def open_network(folder: Path, device: str) -> Callable[..., Any]:
    """A function of the network's inputs in order, which must lie where it runs.

    Nothing is copied (DLPack) but what does not begin where vectors may (``ALIGNED``). It answers with tensors of
    PyTorch's where it is given some, else with numpy's arrays; several as a tuple.
    """
    kind, _, index = device.partition(":")
    library = tvm.runtime.load_module(str(folder / NETWORK))
    machine = relax.VirtualMachine(library, tvm.device(kind, int(index or 0)))
    main = machine["main"]

    def run(*tensors: Any) -> Any:
        framework = sys.modules.get("torch")
        is_torch = framework is not None and any(isinstance(each, framework.Tensor) for each in tensors)
        back = framework.from_dlpack if framework is not None and is_torch else _array
        return _each(main(*map(_handed, tensors)), back)

    return run


def _handed(tensor: Any) -> Any:
    """As the virtual machine takes it: without its gradient, its values in order and aligned."""
    if hasattr(tensor, "detach"):
        plain = tensor.detach().contiguous()
        return tvm_ffi.from_dlpack(plain if plain.data_ptr() % ALIGNED == 0 else plain.clone())
    array = np.ascontiguousarray(tensor)
    return tvm_ffi.from_dlpack(array) if array.ctypes.data % ALIGNED == 0 else tvm.runtime.tensor(array)


def _array(tensor: Any) -> Any:
    return tensor.numpy()


def _each(outputs: Any, back: Callable[[Any], Any]) -> Any:
    if isinstance(outputs, tvm.runtime.Tensor):
        return back(outputs)
    return tuple(_each(output, back) for output in outputs)
