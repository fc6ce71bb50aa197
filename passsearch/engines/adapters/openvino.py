"""OpenVINO on the CPU, in float32."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs

ENVIRONMENT = EngineEnvironment("openvino", REQUIREMENTS, ("openvino",), disk_bytes=600_000_000)
ENGINES: dict[str, dict[str, Any]] = {"openvino": {}}


class OpenVino:
    """A compiled model with one request."""

    def __init__(self, model: str, *, threads: int, inputs: Inputs) -> None:
        import openvino as ov

        # Without the first setting OpenVINO computes in bfloat16 where the processor can.
        self.settings = {
            "INFERENCE_PRECISION_HINT": "f32",
            "EXECUTION_MODE_HINT": "ACCURACY",
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
        }
        compiled = ov.Core().compile_model(model, "CPU", self.settings)
        self._request = compiled.create_infer_request()
        # The request reads the arrays where they are, so they must outlive it.
        self._inputs = {name: np.ascontiguousarray(array) for name, array in inputs.items()}
        for name, array in self._inputs.items():
            self._request.set_tensor(name, ov.Tensor(array, shared_memory=True))
        self._count = len(compiled.outputs)
        self.threads = int(compiled.get_property("INFERENCE_NUM_THREADS"))
        self.versions = {"openvino": ov.__version__}

    def outputs(self) -> Sequence[Array]:
        """Run once and copy the outputs."""
        self.infer()
        return [self._request.get_output_tensor(place).data.copy() for place in range(self._count)]

    def infer(self) -> None:
        """Run once."""
        self._request.infer(share_outputs=True)


def open_engine(model: str, *, threads: int, inputs: Inputs) -> OpenVino:
    """Load and compile a model file."""
    return OpenVino(model, threads=threads, inputs=inputs)
