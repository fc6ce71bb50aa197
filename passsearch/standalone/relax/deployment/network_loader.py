"""The loader of a network that build_model.py has built, for TVM's virtual machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import checked_files
import cuda_libraries
import loader_command
import machine
import machine_pool
import processor
import separate_weights
import size_choice
import sized_network
import tvm
import tvm_ffi

NETWORK = "network.so"


def load(
    folder: str | Path, device: str | None = None, function: str | None = None, machines: int | None = None
) -> Any:
    """Return a built network or one of its functions; see ``machine_pool.Network`` and ``sized_network.SizedNetwork``.

    Args:
        folder: What build_model.py has written.
        device: Kind of the device, such as ``cuda``; by default what it was built for.
        function: Name of the entry function; by default ``main``, or the one of each call's size.
        machines: Largest number of calls that run at once; by default one for each processor. On a GPU it is 1.

    Raises:
        DeploymentError: A file has changed, or the TVM or the processor is another one.
    """
    built = checked_files.Built(Path(folder))
    loader_command.check_machine(built, tvm.__version__)
    built.path(NETWORK)
    device = device or built.device
    if function is None and built.has(size_choice.SIZES):
        choice = size_choice.Choice(json.loads(built.path(size_choice.SIZES).read_text()))
        for name in built.inputs:
            separate_weights.check_weights(built, name)
        return open_sized(built.folder, built.inputs, device, choice, machines=machines)
    function = function or loader_command.MAIN
    separate_weights.check_weights(built, function)
    return open_network(built.folder, built.function(function), device, function, machines=machines)


def open_network(
    folder: Path,
    inputs: Any,
    device: str,
    function: str = "main",
    *,
    held: dict[str, Any] | None = None,
    machines: int | None = None,
) -> Any:
    """Return one function of a network whose files are not checked; ``held`` gets the tensors of the last inputs."""
    make = _machine_maker(folder, device, [function], held=held)

    def make_one() -> Any:
        machine = make()
        return lambda arrays: machine(function, arrays)

    # Machines share the weights in the processor's memory; on another device each would have a copy of its own.
    return machine_pool.Network(make_one, inputs, machines if device == "cpu" else 1)


def open_sized(folder: Path, inputs: dict[str, Any], device: str, choice: Any, *, machines: int | None = None) -> Any:
    """Return a network of several sizes, whose files are not checked."""
    # One machine has all functions: a machine for each would copy the weights that they share.
    make = _machine_maker(folder, device, [*inputs])
    return sized_network.SizedNetwork(make, inputs, choice, machines if device == "cpu" else 1)


def _machine_maker(folder: Path, device: str, functions: list[str], *, held: dict[str, Any] | None = None) -> Any:
    """Return a function that makes machines, each a function of the name of an entry function and of arrays."""
    if device == "cpu":
        processor.use_all_cores()
    else:
        cuda_libraries.load_runtime("cc")
    place = tvm.device(device, 0)
    loader_command.check_device(folder, device, place)
    library = tvm.runtime.load_module(str(folder / NETWORK))
    weights = separate_weights.read_all_weights(folder, functions)

    def make() -> Any:
        virtual = machine.Machine(library, place, functions, keeps=held is not None)
        names = {name: virtual.parameters(name) for name in functions}

        def run(function: str, arrays: dict[str, Any]) -> list[Any]:
            own, constants = names[function], weights[function]
            inputs = [arrays[name] for name in own[: len(own) - len(constants)]]
            outputs = list(machine.leaves(virtual.run(function, inputs, constants, machine.to_numpy)))
            if held is not None:
                held.update(zip(own, virtual.inputs))
            return outputs

        return run

    return make


def compile_options() -> list[str]:
    """Return the compiler's options for the headers and the runtime of this TVM."""
    homes = [Path(tvm.__file__).parent, Path(tvm_ffi.__file__).parent]
    includes = [f"-I{home / 'include'}" for home in homes]
    return [*includes, *loader_command.link_options([home / "lib" for home in homes], ["tvm_runtime", "tvm_ffi"])]


def main(record: Any) -> None:
    """Run the command line of run_model.py."""
    loader_command.main(load, compile_options)
