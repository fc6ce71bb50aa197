"""Build a network with exactly the passes of pipeline.json; check the IR after each pass, then the outputs.

Reads pipeline.json, network.json, the other Python files and the passes' sources beside this file; needs TVM and numpy
only. Once every check has passed, --out gets kernels.so, graph.json and parameters.bin for TVM's
graph executor. Exits with 1 if the IR or the outputs differ from the recorded ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rebuild_checks

with rebuild_checks.empty_working_folder():
    import tvm
    from keep_nan import keep_nan
    from quantized import canonicalize_quantized
    from run_model import GRAPH, KERNELS, PARAMETERS, load
    from tvm import relay


class Relay:
    """The steps of a build with TVM's Relay."""

    version = tvm.__version__
    parse_target = tvm.target.Target

    def load(self, path: Path) -> Any:
        """Return the network, types inferred."""
        return relay.transform.InferType()(tvm.ir.load_json(path.read_text()))

    def apply(self, module: Any, transform: Any, target: Any) -> Any:
        """Return the network after one pass; some passes read the current target."""
        # TVM skips a pass whose own opt level is above the context's; at 4 every recorded pass runs.
        with target, tvm.transform.PassContext(opt_level=4):
            return relay.transform.InferType()(transform(module))

    def hash(self, module: Any) -> str:
        """Return TVM's structural hash."""
        return f"{tvm.ir.structural_hash(module) & 0xFFFFFFFFFFFFFFFF:016x}"

    def build(self, module: Any, options: Any, target: Any, folder: Path) -> None:
        """Compile the network into the folder."""
        context = tvm.transform.PassContext(
            opt_level=options["opt_level"],
            required_pass=options["required"],
            disabled_pass=options["disabled"],
            config=keep_nan(options["config"]),
        )
        # Before the build, which takes longer than to find out that the machine has no linker.
        compiler = rebuild_checks.require_linker()
        with context:
            library = relay.build(canonicalize_quantized(module, opt_level=options["opt_level"]), target)
        library.get_lib().export_library(str(folder / KERNELS), cc=compiler)
        (folder / GRAPH).write_text(library.get_graph_json())
        (folder / PARAMETERS).write_bytes(relay.save_param_dict(library.get_params()))

    def open(self, folder: Path, target: Any, function: str) -> Any:
        """Return the built network, and a function that returns its inputs as they are in memory."""
        held: dict[str, Any] = {}
        device = "cpu" if target.kind.name == "llvm" else target.kind.name
        return load(folder, device, held), lambda: {name: tensor.numpy() for name, tensor in held.items()}


if __name__ == "__main__":
    rebuild_checks.rebuild(Relay(), (KERNELS, GRAPH, PARAMETERS))
