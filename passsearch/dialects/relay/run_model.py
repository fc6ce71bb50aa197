"""Load the network that build_model.py has built, and run it on the example inputs.

``load(folder)`` is for your own program: it returns a function of arrays by name. Needs TVM and numpy, and
loader_command.py beside this file; ``--compile FILE`` compiles run_model.cc, which does the same in C++.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import loader_command

# TVM's Relay makes a cache folder where it is imported, and does not start where it cannot.
WORKING_FOLDER = Path.cwd()
with tempfile.TemporaryDirectory() as empty:
    os.chdir(empty)
    try:
        import tvm
        from tvm.contrib import graph_executor
    finally:
        os.chdir(WORKING_FOLDER)

KERNELS, GRAPH, PARAMETERS = "kernels.so", "graph.json", "parameters.bin"


def load(folder: str | Path, device: str = "cpu", held: dict[str, Any] | None = None) -> Any:
    """Return the network as a function of arrays by name, which returns a list of arrays.

    ``held`` gets the tensors of the last inputs by name.
    """
    folder = Path(folder)
    kernels = tvm.runtime.load_module(str(folder / KERNELS))
    executor = graph_executor.create((folder / GRAPH).read_text(), kernels, tvm.device(device, 0))
    executor.load_params((folder / PARAMETERS).read_bytes())

    def run(inputs: dict[str, Any]) -> list[Any]:
        for name, array in inputs.items():
            if executor.get_input_index(name) >= 0:  # an input that nothing reads is not in the graph
                executor.set_input(name, array)
        executor.run()
        if held is not None:
            held.update({name: executor.get_input(name) for name in inputs if executor.get_input_index(name) >= 0})
        return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]

    return run


def compile_options() -> list[str]:
    """Return the compiler's options for the headers and the runtime of this TVM."""
    home = Path(tvm.__file__).parent
    includes = [f"-I{home / name}" for name in ("include", "dlpack/include", "dmlc-core/include")]
    # Wheels for old systems are compiled with the old strings of C++, and their programs must be too.
    has_new_strings = b"__cxx11" in (home / "libtvm_runtime.so").read_bytes()
    definitions = [
        f"-D_GLIBCXX_USE_CXX11_ABI={int(has_new_strings)}",
        "-DDMLC_USE_LOGGING_LIBRARY=<tvm/runtime/logging.h>",
    ]
    return [*includes, *definitions, *loader_command.link_options([home], ["tvm_runtime"])]


if __name__ == "__main__":
    loader_command.main(partial(load, device=loader_command.own_device()), compile_options)
