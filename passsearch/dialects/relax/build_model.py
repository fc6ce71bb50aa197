"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Reads pipeline.json, network.json, replay.py, linker.py, lowering.py and the passes' sources beside this file; needs TVM and numpy
only. Once every check has passed, --out gets network.so for TVM's virtual machine.
Exits with 1 where the IR or the outputs are not the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lowering
import replay
import tvm
import tvm_ffi
from tvm import relax

NETWORK = "network.so"


class Relax:
    """TVM's steps for Relax."""

    version = tvm.__version__

    def target(self, text: str) -> Any:
        """From a kind with options, a tag or JSON."""
        return tvm.target.Target(lowering.target_options(text))

    def load(self, path: Path) -> Any:
        """The network."""
        return tvm.ir.load_json(path.read_text())

    def apply(self, module: Any, transform: Any, target: Any) -> Any:
        """One pass, with the target in scope."""
        with target, tvm.transform.PassContext(opt_level=4):
            return transform(module)

    def hash(self, module: Any) -> str:
        """TVM's structural hash."""
        return f"{tvm_ffi.structural_hash(module):016x}"

    def build(self, module: Any, options: Any, target: Any, folder: Path) -> None:
        """Compile into the folder."""
        context = tvm.transform.PassContext(
            opt_level=4,
            required_pass=options["required"],
            disabled_pass=options["disabled"],
            config=options["config"],
        )
        compiler = replay.require_linker()
        with target, context:
            lowered = lowering.lowered(module, level=options["opt_level"], target=target)
            relax.build(lowered, target, relax_pipeline=None).export_library(str(folder / NETWORK), cc=compiler)

    def run(self, folder: Path, inputs: dict[str, Any], target: Any) -> list[Any]:
        """Outputs of the built network."""
        device = tvm.device("cpu" if "cpu" in target.keys else target.kind.name, 0)
        machine = relax.VirtualMachine(tvm.runtime.load_module(str(folder / NETWORK)), device)
        return flat(machine["main"](*[tvm.runtime.tensor(array, device) for array in inputs.values()]))


def flat(outputs: Any) -> list[Any]:
    """Arrays, of tuples in tuples too."""
    if isinstance(outputs, tvm.runtime.Tensor):
        return [outputs.numpy()]
    return [each for output in outputs for each in flat(output)]


if __name__ == "__main__":
    replay.replay(Relax(), (NETWORK,))
