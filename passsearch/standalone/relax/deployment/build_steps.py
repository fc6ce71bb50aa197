"""The steps of build_model.py with TVM's Relax."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import build_target
import code_generation
import cuda_libraries
import legalization
import lowering
import network_file
import network_loader
import rebuild_checks
import resizing
import separate_weights
import size_choice
import sized_network
import tvm
import tvm_ffi
from tvm import relax


class Relax:
    """The steps of a build with TVM's Relax."""

    version = tvm.__version__

    def __init__(self) -> None:
        legalization.replace_functions()
        resizing.replace_resizes()
        code_generation.replace_narrowing()
        code_generation.replace_copies()

    def parse_target(self, text: str) -> Any:
        """Return the target of a kind with options, a tag or JSON."""
        return tvm.target.Target(lowering.target_options(text))

    def load(self, path: Path) -> Any:
        """Return the network."""
        return network_file.read_network(path)

    def apply(self, module: Any, transform: Any, target: Any) -> Any:
        """Return the network after one pass; some passes read the current target."""
        # TVM skips a pass whose own opt level is above the context's; at 4 every recorded pass runs.
        with target, tvm.transform.PassContext(opt_level=4):
            return transform(module)

    def hash(self, module: Any) -> str:
        """Return TVM's structural hash."""
        return f"{tvm_ffi.structural_hash(module):016x}"

    def build(self, module: Any, options: Any, target: Any, folder: Path) -> None:
        """Compile the network into the folder."""
        context = tvm.transform.PassContext(
            opt_level=4,
            required_pass=options["required"],
            disabled_pass=options["disabled"],
            config=code_generation.build_config(options["config"], target),
        )
        # Before the build, which takes longer than to find out that the machine has no linker.
        compiler = rebuild_checks.require_linker()
        if target.kind.name == "cuda":
            prepare_cuda(compiler)
        with target, context:
            network = lowering.lower(module, level=options["opt_level"], target=target)
            if code_generation.CPU in target.keys:
                network = separate_weights.separate_weights(network, folder, separate_weights.save)
            threads = len(os.sched_getaffinity(0))
            code_generation.write_library(
                network, target, folder / network_loader.NETWORK, threads=threads, cc=compiler
            )

    def inputs(self, module: Any, function: str) -> list[Any]:
        """Return ``[name, dtype, shape]`` of the inputs of a function; an open size has a name."""
        return [[str(each.name), str(each.ty.dtype), _shape(each.ty.shape)] for each in module[function].params]

    def open(self, folder: Path, inputs: Any, target: Any, function: str) -> Any:
        """Return one function of the built network, and a function that returns its inputs as they are in memory."""
        held: dict[str, Any] = {}
        network = network_loader.open_network(folder, inputs, build_target.device_kind(target), function, held=held)
        return network, lambda: {name: tensor.numpy() for name, tensor in held.items()}

    def write_sizes(self, record: Any, runs: Any, *, inputs: Any, folder: Path, target: Any) -> str:
        """Compare padded calls, write how a size is chosen, and return what the sizes between take."""
        device = build_target.device_kind(target)

        def open_sized(choice: Any) -> Any:
            return network_loader.open_sized(folder, inputs, device, choice)

        return sized_network.write_sizes(  # type: ignore[no-any-return]
            record, runs, open_sized, folder, rebuild_checks.output_deviation
        )


def _shape(shape: Any) -> list[Any]:
    """Return the sizes of a shape; ``*`` stands for any shape."""
    if not isinstance(shape, relax.ShapeExpr):
        return ["*"]
    return [int(size) if isinstance(size, tvm.tirx.IntImm) else str(size).replace(" ", "") for size in shape.values]


def prepare_cuda(compiler: str) -> None:
    """Load what compiles for CUDA, or say what is missing and exit."""
    try:
        cuda_libraries.prepare(compiler)
    except OSError as error:
        sys.exit(str(error))


def main(record: Any) -> None:
    """Run the command line of build_model.py."""
    files = (network_loader.NETWORK, separate_weights.TABLE, separate_weights.FOLDER, size_choice.SIZES)
    rebuild_checks.rebuild(Relax(), files, record)
