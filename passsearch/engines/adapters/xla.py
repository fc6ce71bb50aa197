"""XLA by JAX, on the operators of the ONNX file."""

from collections.abc import Sequence
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request, usable_cores

ENVIRONMENT = EngineEnvironment("xla", REQUIREMENTS, ("jax", "onnx"), disk_bytes=1_000_000_000)
ENGINES: dict[str, dict[str, Any]] = {"xla": {}}


class Xla:
    """A compiled function whose weights are constants, as in the other engines, with its inputs as arrays of JAX."""

    def __init__(self, model: str, *, inputs: Inputs) -> None:
        import jax
        import jaxlib
        import onnx

        from passsearch.engines.onnx_to_jax import convert

        # The other engines beside it run on the CPU; by itself JAX takes a GPU where there is one.
        jax.config.update("jax_platforms", "cpu")
        # Without it, JAX makes 32-bit integers of the inputs.
        jax.config.update("jax_enable_x64", True)
        self._jax = jax
        network, weights = convert(onnx.load(model))
        # Weights are constants and no arguments, so that XLA lays them out once and folds what depends on them only.
        self._run = jax.jit(lambda values: network(weights, values))
        self._inputs = jax.device_put(tuple(inputs.values()))
        # XLA makes a thread for each core that it may use; it has no setting.
        self.threads = usable_cores()
        self.versions = {"jax": jax.__version__, "jaxlib": jaxlib.__version__}
        self.settings = {"jax_enable_x64": True}
        self.infer()  # the first call compiles

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        arrays: Sequence[Array] = self._jax.device_get(self._run(tuple(inputs.values())))
        return arrays

    def infer(self) -> None:
        """Run once, and wait until the outputs are there."""
        self._jax.block_until_ready(self._run(self._inputs))

    def requests(self, count: int) -> Sequence[Request]:
        """Return calls of one function, which share XLA's pool of threads."""
        return [self.infer] * count

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Refuse: JAX writes a trace for a viewer only."""
        raise NotImplementedError("JAX's profiler writes a trace for a viewer only")


def open_engine(model: str, *, threads: int | None, inputs: Inputs) -> Xla:
    """Convert and compile a model file; the process is pinned to as many cores as there are threads."""
    del threads
    return Xla(model, inputs=inputs)
