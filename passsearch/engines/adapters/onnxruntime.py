"""ONNX Runtime on the CPU."""

from collections.abc import Sequence
from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs

ENVIRONMENT = EngineEnvironment("onnxruntime", REQUIREMENTS, ("onnxruntime",), disk_bytes=300_000_000)
ENGINES: dict[str, dict[str, Any]] = {"onnxruntime": {}}


class OnnxRuntime:
    """A session with bound inputs; outputs are not copied."""

    def __init__(self, model: str, *, threads: int, inputs: Inputs, optimise: bool) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
        self._session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        for name, array in inputs.items():
            self._binding.bind_cpu_input(name, array)
        for output in self._session.get_outputs():
            self._binding.bind_output(output.name)
        self.threads = threads
        self.versions = {"onnxruntime": ort.__version__}
        self.settings = {"graph_optimization_level": options.graph_optimization_level.name}

    def outputs(self) -> Sequence[Array]:
        """Run once and copy the outputs."""
        self.infer()
        arrays: Sequence[Array] = self._binding.copy_outputs_to_cpu()
        return arrays

    def infer(self) -> None:
        """Run once."""
        self._session.run_with_iobinding(self._binding)


def open_engine(model: str, *, threads: int, inputs: Inputs, optimise: bool = True) -> OnnxRuntime:
    """Load a model file; without ``optimise`` its graph runs as it is."""
    return OnnxRuntime(model, threads=threads, inputs=inputs, optimise=optimise)
