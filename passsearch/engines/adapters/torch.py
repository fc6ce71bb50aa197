"""PyTorch, eager or compiled by Inductor, on the operators of the ONNX file."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.contract import REQUIREMENTS, Array, Inputs

ENVIRONMENT = EngineEnvironment(
    "torch", REQUIREMENTS, ("torch", "onnx"), disk_bytes=2_000_000_000, requirement="torch==2.13.0"
)
ENGINES: dict[str, dict[str, Any]] = {"torch": {}, "inductor": {"inductor": True}}


class Torch:
    """A module with its inputs as tensors."""

    def __init__(self, model: str, *, threads: int, inputs: Inputs, inductor: bool, device: str, float64: bool) -> None:
        import onnx
        import torch

        from passsearch.engines.onnx_to_torch import convert

        self._torch = torch
        torch.set_num_threads(threads)
        # TVM computes convolutions in float32 too; PyTorch's default on a GPU rounds their operands to TF32.
        torch.backends.cudnn.allow_tf32 = False
        dtype = torch.float64 if float64 else torch.float32
        module = convert(onnx.load(model), dtype=dtype).eval().to(device)
        if float64:
            module, inputs = module.double(), {name: _as_float64(array) for name, array in inputs.items()}
        self._tensors = [torch.from_numpy(array).to(device) for array in inputs.values()]
        self._has_queue = device != "cpu"
        self._run: Any = _compile(module, device=device) if inductor else module
        self.threads = torch.get_num_threads()
        self.versions = {"torch": torch.__version__}
        self.settings: dict[str, Any] = {"dtype": "float64"} if float64 else {}
        if inductor:
            self.settings |= {"torch._inductor.config.freezing": True} if device == "cpu" else {}
            self.infer()  # the first call compiles

    def outputs(self) -> Sequence[Array]:
        """Run once and copy the outputs."""
        with self._torch.inference_mode():
            return [tensor.cpu().numpy().copy() for tensor in self._run(*self._tensors)]

    def infer(self) -> None:
        """Run once, and wait until the device has finished."""
        with self._torch.inference_mode():
            self._run(*self._tensors)
        if self._has_queue:
            self._torch.cuda.synchronize()


def _as_float64(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def _compile(module: Any, *, device: str) -> Any:
    import torch
    from torch._inductor import config

    # Weights become constants that are packed ahead of time, as PyTorch's documentation advises for inference on CPUs.
    config.freezing = device == "cpu"
    return torch.compile(module, fullgraph=True)


def open_engine(
    model: str, *, threads: int, inputs: Inputs, inductor: bool = False, device: str = "cpu", float64: bool = False
) -> Torch:
    """Convert a model file; ``inductor`` compiles it too, ``float64`` computes all of it in double precision."""
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor, device=device, float64=float64)
