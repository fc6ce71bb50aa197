"""The steps of build_model.py with TVM's Relay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import build_target
import rebuild_checks

with rebuild_checks.empty_working_folder():
    import tvm
    from keep_nan import keep_nan
    from network_loader import GRAPH, KERNELS, PARAMETERS, open_network
    from quantized import canonicalize_quantized
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

    def inputs(self, module: Any, function: str) -> list[Any]:
        """Return ``[name, dtype, shape]`` of the inputs of a function."""
        types = [(each.name_hint, each.checked_type) for each in module[function].params]
        return [[str(name), str(kind.dtype), [int(size) for size in kind.shape]] for name, kind in types]

    def open(self, folder: Path, inputs: Any, target: Any, function: str) -> Any:
        """Return the built network, and a function that returns its inputs as they are in memory."""
        held: dict[str, Any] = {}
        network = open_network(folder, inputs, build_target.device_kind(target), held=held)
        return network, lambda: {name: tensor.numpy() for name, tensor in held.items()}


def main(record: Any) -> None:
    """Run the command line of build_model.py."""
    rebuild_checks.rebuild(Relay(), (KERNELS, GRAPH, PARAMETERS), record)
