"""Load the network that build_model.py has built, and run it on the example inputs.

``load(folder)`` is for your own program: it returns a function of arrays by name. Needs TVM and numpy, and beside this
file loader_command.py and, for a GPU, cuda_libraries.py; ``--compile FILE`` compiles run_model.cc, which does the same
in C++ for processors.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import cuda_libraries
import loader_command
import tvm
import tvm_ffi
from tvm import relax

NETWORK = "network.so"


def load(folder: str | Path, device: str = "cpu", function: str = "main", held: dict[str, Any] | None = None) -> Any:
    """Return one function of the network as a function of arrays by name, which returns a list of arrays.

    ``held`` gets the tensors of the last inputs by name.
    """
    if device != "cpu":
        cuda_libraries.load_runtime("cc")
    place = tvm.device(device, 0)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(Path(folder) / NETWORK)), place)
    names = [machine._get_function_param_name(function, at) for at in range(machine._get_function_arity(function))]

    def run(inputs: dict[str, Any]) -> list[Any]:
        tensors = {name: tvm.runtime.tensor(inputs[name], place) for name in names}
        if held is not None:
            held.update(tensors)
        return flatten(machine[function](*tensors.values()))

    return run


def flatten(outputs: Any) -> list[Any]:
    """Return the arrays of nested tuples in order."""
    if isinstance(outputs, tvm.runtime.Tensor):
        return [outputs.numpy()]
    return [array for output in outputs for array in flatten(output)]


def compile_options() -> list[str]:
    """Return the compiler's options for the headers and the runtime of this TVM."""
    homes = [Path(tvm.__file__).parent, Path(tvm_ffi.__file__).parent]
    includes = [f"-I{home / 'include'}" for home in homes]
    return [*includes, *loader_command.link_options([home / "lib" for home in homes], ["tvm_runtime", "tvm_ffi"])]


if __name__ == "__main__":
    loader_command.main(partial(load, device=loader_command.own_device()), compile_options)
