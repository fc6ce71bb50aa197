"""A network that passsearch built, run by the toolchain's TVM. Runs in the toolchain's interpreter."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from passsearch.dialects.contract import Artifact
from passsearch.engines.contract import Array, Inputs


class BuiltNetwork:
    """An artifact in TVM's runtime."""

    def __init__(self, folder: str, *, inputs: Inputs, bridge: str, target: str, device: str, version: str) -> None:
        module, _, name = bridge.partition(":")
        compiler = getattr(import_module(module), name)(target)
        self._executable = compiler.open(Artifact(Path(folder), bytes=0, plan_bytes=None), device)
        self._inputs = inputs
        self.threads = int(compiler.threads())
        self.versions = {"tvm": version}
        self.settings: dict[str, str] = {}

    def outputs(self) -> Sequence[Array]:
        """Bind the inputs, run once and copy the outputs."""
        outputs: Sequence[Array] = self._executable.run(self._inputs)
        return outputs

    def infer(self) -> None:
        """Run once; outputs are not copied."""
        self._executable.run_repeatedly(1)


def open_engine(
    model: str, *, threads: int, inputs: Inputs, bridge: str, target: str, device: str = "cpu", version: str = ""
) -> BuiltNetwork:
    """Load an artifact.

    Args:
        model: Folder of the artifact.
        threads: Number of threads; TVM reads it from the environment.
        inputs: Inputs of every inference.
        bridge: The dialect's bridge, as ``module:Class``.
        target: TVM's target.
        device: Device that runs it.
        version: Version of the TVM.
    """
    del threads
    return BuiltNetwork(model, inputs=inputs, bridge=bridge, target=target, device=device, version=version)
