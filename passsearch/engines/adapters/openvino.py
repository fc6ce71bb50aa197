"""OpenVINO on the CPU."""

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs, KernelCall, Request, fastest_calls, shape_text

ENVIRONMENT = EngineEnvironment("openvino", REQUIREMENTS, ("openvino",), disk_bytes=600_000_000)
ENGINES: dict[str, dict[str, Any]] = {"openvino": {}, "openvino:own": {"dtype": ""}}
LOWERED = frozenset({"openvino:own"})
NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class OpenVino:
    """A compiled model with one request for latency, and one compiled for throughput where several are in flight.

    The model is a file, or one that OpenVINO has read.
    """

    def __init__(
        self, model: Any, *, threads: int | None, inputs: Inputs, dtype: str, options: Mapping[str, Any] = NO_OPTIONS
    ) -> None:
        import openvino as ov

        self._openvino, self._model = ov, model
        # Without the first setting OpenVINO computes in bfloat16 where the processor can.
        self._precision = {"INFERENCE_PRECISION_HINT": dtype, "EXECUTION_MODE_HINT": "ACCURACY"} if dtype else {}
        self._threads = {**({"INFERENCE_NUM_THREADS": threads} if threads else {}), **options}
        self.settings: dict[str, Any] = {**self._precision, "PERFORMANCE_HINT": "LATENCY", **self._threads}
        self._compiled = ov.Core().compile_model(model, "CPU", self.settings)
        # A request reads the arrays where they are, so they must outlive it.
        self._inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        self._request = self._bind(self._compiled)
        self.threads = int(self._compiled.get_property("INFERENCE_NUM_THREADS"))
        self.settings["INFERENCE_PRECISION_HINT"] = str(
            self._compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        )
        self.versions = {"openvino": ov.__version__}

    def _bind(self, compiled: Any) -> Any:
        request = compiled.create_infer_request()
        for name, array in self._inputs.items():
            request.set_tensor(name, self._openvino.Tensor(array, shared_memory=True))
        return request

    def outputs(self, inputs: Inputs) -> Sequence[Array]:
        """Run once and copy the outputs."""
        results = self._compiled.create_infer_request().infer(dict(inputs))
        return [np.array(results[place]) for place in range(len(self._compiled.outputs))]

    def infer(self) -> None:
        """Run once."""
        self._request.infer(share_outputs=True)

    def requests(self, count: int) -> Sequence[Request]:
        """Return requests of the model compiled for throughput, which divides the threads into streams."""
        hints = {"PERFORMANCE_HINT": "THROUGHPUT", "PERFORMANCE_HINT_NUM_REQUESTS": count}
        settings = {**self._precision, **hints, **self._threads}
        compiled = self._openvino.Core().compile_model(self._model, "CPU", settings)
        return [partial(self._bind(compiled).infer, share_outputs=True) for _ in range(count)]

    def kernels(self, runs: int) -> Sequence[KernelCall]:
        """Return the executed nodes, by the counters of a model that is compiled once more."""
        settings = {**self._precision, "PERFORMANCE_HINT": "LATENCY", **self._threads, "PERF_COUNT": True}
        compiled = self._openvino.Core().compile_model(self._model, "CPU", settings)
        request = self._bind(compiled)
        shapes = {node.friendly_name: _shapes(node) for node in compiled.get_runtime_model().get_ops()}
        profiles = []
        for _ in range(runs + 1):  # the first one fills the caches
            request.infer(share_outputs=True)
            nodes = [node for node in request.profiling_info if node.status == node.Status.EXECUTED]
            profiles.append([_call(node, shapes.get(node.node_name, "")) for node in nodes])
        return fastest_calls(profiles[1:])


def _call(node: Any, shape: str) -> KernelCall:
    seconds = node.real_time.total_seconds()
    return KernelCall(f"{node.node_type} {node.exec_type}", seconds, node.node_type, shape)


def _shapes(node: Any) -> str:
    ends = [*node.inputs(), *node.outputs()]
    return shape_text(end.get_shape() for end in ends if end.get_partial_shape().is_static)


def open_engine(
    model: str,
    *,
    threads: int | None,
    inputs: Inputs,
    dtype: str = "f32",
    options: Mapping[str, Any] = MappingProxyType({}),
) -> OpenVino:
    """Load and compile a model file; without ``dtype`` OpenVINO chooses the type that it computes in.

    ``options`` are further properties of the compiled model.
    """
    return OpenVino(model, threads=threads, inputs=inputs, dtype=dtype, options=options)
