"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Reads pipeline.json, network.json, the other Python files and the passes' sources beside this file; needs TVM and numpy
only. Once every check has passed, --out gets network.so for TVM's virtual machine.
Exits with 1 if the IR or the outputs differ from the recorded ones.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import code_generation
import cuda_libraries
import legalization
import lowering
import rebuild_checks
import run_model
import tvm
import tvm_ffi


class Relax:
    """The steps of a build with TVM's Relax."""

    version = tvm.__version__

    def __init__(self) -> None:
        legalization.replace_functions()
        code_generation.replace_narrowing()

    def parse_target(self, text: str) -> Any:
        """Return the target of a kind with options, a tag or JSON."""
        return tvm.target.Target(lowering.target_options(text))

    def load(self, path: Path) -> Any:
        """Return the network."""
        return tvm.ir.load_json(path.read_text())

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
            config=options["config"],
        )
        # Before the build, which takes longer than to find out that the machine has no linker.
        compiler = rebuild_checks.require_linker()
        if target.kind.name == "cuda":
            prepare_cuda(compiler)
        with target, context:
            lowered = lowering.lower(module, level=options["opt_level"], target=target)
            threads = len(os.sched_getaffinity(0))
            code_generation.write_library(lowered, target, folder / run_model.NETWORK, threads=threads, cc=compiler)

    def open(self, folder: Path, target: Any, function: str) -> Any:
        """Return one function of the built network, and a function that returns its inputs as they are in memory."""
        held: dict[str, Any] = {}
        device = "cpu" if "cpu" in target.keys else target.kind.name
        network = run_model.load(folder, device, function, held)
        return network, lambda: {name: tensor.numpy() for name, tensor in held.items()}


def prepare_cuda(compiler: str) -> None:
    """Load what compiles for CUDA, or say what is missing and exit."""
    try:
        cuda_libraries.prepare(compiler)
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    rebuild_checks.rebuild(Relax(), (run_model.NETWORK,))
