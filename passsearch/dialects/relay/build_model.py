"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Reads pipeline.json, network.json, replay.py, linker.py and the passes' sources beside this file; needs TVM and numpy only. Once
every check has passed, --out gets kernels.so, graph.json and parameters.bin for TVM's graph executor.
Exits with 1 where the IR or the outputs are not the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import replay
import tvm
from tvm import relay
from tvm.contrib import graph_executor

KERNELS, GRAPH, PARAMETERS = "kernels.so", "graph.json", "parameters.bin"


class Relay:
    """TVM's steps for Relay."""

    version = tvm.__version__
    target = tvm.target.Target

    def load(self, path: Path) -> Any:
        """The network, types inferred."""
        return relay.transform.InferType()(tvm.ir.load_json(path.read_text()))

    def apply(self, module: Any, transform: Any, target: Any) -> Any:
        """One pass, with the target in scope."""
        with target, tvm.transform.PassContext(opt_level=4):
            return relay.transform.InferType()(transform(module))

    def hash(self, module: Any) -> str:
        """TVM's structural hash."""
        return f"{tvm.ir.structural_hash(module) & 0xFFFFFFFFFFFFFFFF:016x}"

    def build(self, module: Any, options: Any, target: Any, folder: Path) -> None:
        """Compile into the folder."""
        context = tvm.transform.PassContext(
            opt_level=options["opt_level"],
            required_pass=options["required"],
            disabled_pass=options["disabled"],
            config=options["config"],
        )
        compiler = replay.require_linker()
        with context:
            library = relay.build(module, target)
        library.get_lib().export_library(str(folder / KERNELS), cc=compiler)
        (folder / GRAPH).write_text(library.get_graph_json())
        (folder / PARAMETERS).write_bytes(relay.save_param_dict(library.get_params()))

    def run(self, folder: Path, inputs: dict[str, Any], target: Any) -> list[Any]:
        """Outputs of the built network."""
        device = tvm.device(target.kind.name, 0)
        kernels = tvm.runtime.load_module(str(folder / KERNELS))
        executor = graph_executor.create((folder / GRAPH).read_text(), kernels, device)
        executor.load_params((folder / PARAMETERS).read_bytes())
        for name, array in inputs.items():
            if executor.get_input_index(name) >= 0:
                executor.set_input(name, array)
        executor.run()
        return [executor.get_output(index).numpy() for index in range(executor.get_num_outputs())]


if __name__ == "__main__":
    replay.replay(Relay(), (KERNELS, GRAPH, PARAMETERS))
