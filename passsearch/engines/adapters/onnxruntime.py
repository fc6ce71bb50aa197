"""ONNX Runtime on the CPU."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, Request, count_threads, started_threads

ENVIRONMENT = EngineEnvironment("onnxruntime", REQUIREMENTS, ("onnxruntime",), disk_bytes=300_000_000)
ENGINES: dict[str, dict[str, Any]] = {"onnxruntime": {}}


class OnnxRuntime:
    """A session with bound inputs; outputs are not copied."""

    def __init__(self, model: str, *, threads: int | None, inputs: Inputs, optimise: bool) -> None:
        import onnxruntime as ort

        options, threads_before = ort.SessionOptions(), count_threads()
        options.intra_op_num_threads, options.inter_op_num_threads = threads or 0, 1
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._inputs = inputs
        self._binding = self._bind()
        self.threads = threads or started_threads(threads_before)
        self.versions = {"onnxruntime": ort.__version__}
        self.settings = {"graph_optimization_level": options.graph_optimization_level.name}

    def _bind(self) -> Any:
        binding = self._session.io_binding()
        for name, array in self._inputs.items():
            binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():
            binding.bind_output(output.name)
        return binding

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        arrays: Sequence[Array] = self._session.run(None, dict(inputs))
        return arrays

    def infer(self) -> None:
        """Run once."""
        self._session.run_with_iobinding(self._binding)

    def requests(self, count: int) -> Sequence[Request]:
        """Return runs of one session, which share its pool of threads; each has outputs of its own."""
        return [partial(self._session.run_with_iobinding, self._bind()) for _ in range(count)]


def open_engine(model: str, *, threads: int | None, inputs: Inputs, optimise: bool = True) -> OnnxRuntime:
    """Load a model file; without ``optimise`` its graph runs as it is."""
    return OnnxRuntime(model, threads=threads, inputs=inputs, optimise=optimise)
