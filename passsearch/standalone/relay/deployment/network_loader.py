"""The loader of a network that build_model.py has built, for TVM's graph executor."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import checked_files
import loader_command
import machine_pool
import processor

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


def load(folder: str | Path, device: str | None = None, function: str = "main", machines: int | None = None) -> Any:
    """Return a built network; see ``machine_pool.Network``.

    Args:
        folder: What build_model.py has written.
        device: Kind of the device, such as ``cuda``; by default what it was built for.
        function: Name of the entry function.
        machines: Largest number of calls that run at once; by default one for each processor. On a GPU it is 1.

    Raises:
        DeploymentError: A file has changed, or the TVM or the processor is another one.
    """
    built = checked_files.Built(Path(folder))
    loader_command.check_machine(built, tvm.__version__)
    for name in (KERNELS, GRAPH, PARAMETERS):
        built.path(name)
    return open_network(built.folder, built.function(function), device or built.device, machines=machines)


def open_network(
    folder: Path, inputs: Any, device: str, *, held: dict[str, Any] | None = None, machines: int | None = None
) -> Any:
    """Return a network whose files are not checked; ``held`` gets the tensors of the last inputs by name."""
    processor.use_all_cores()
    place = tvm.device(device, 0)
    loader_command.check_device(folder, device, place)
    kernels, graph = tvm.runtime.load_module(str(folder / KERNELS)), (folder / GRAPH).read_text()
    first = graph_executor.create(graph, kernels, place)
    parameters = (folder / PARAMETERS).read_bytes()
    first.load_params(parameters)
    names = parameter_names(parameters)
    del parameters

    def make() -> Any:
        executor = graph_executor.create(graph, kernels, place)
        executor.share_params(first, names)
        # An input that nothing reads is not in the graph.
        present = [name for name, _, _ in inputs if executor.get_input_index(name) >= 0]

        def run(arrays: dict[str, Any]) -> list[Any]:
            for name in present:
                executor.set_input(name, arrays[name])
            executor.run()
            if held is not None:
                held.update({name: executor.get_input(name) for name in present})
            return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]

        return run

    return machine_pool.Network(make, inputs, machines if device == "cpu" else 1)


def parameter_names(parameters: bytes) -> bytes:
    """Return the beginning of a file of parameters, which holds their names and is all that sharing them reads."""
    # Format: two numbers, then the names, then the arrays; a list begins with its length (TVM's file_utils.cc).
    end = 24
    for _ in range(int.from_bytes(parameters[16:24], "little")):
        end += 8 + int.from_bytes(parameters[end : end + 8], "little")
    return parameters[: end + 8]


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


def main(record: Any) -> None:
    """Run the command line of run_model.py."""
    loader_command.main(load, compile_options)
