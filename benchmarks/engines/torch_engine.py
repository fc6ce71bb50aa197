"""PyTorch, eager or compiled by Inductor, on the operators of the ONNX file."""

from collections.abc import Sequence
from typing import Any

import onnx
import torch

from engines.contract import Array, Inputs
from engines.onnx_to_torch import convert


class Torch:
    """A module with its inputs as tensors."""

    def __init__(self, model: str, *, threads: int, inputs: Inputs, inductor: bool, device: str) -> None:
        torch.set_num_threads(threads)
        # TVM computes convolutions in float32 too; PyTorch's default on a GPU rounds their operands to TF32.
        torch.backends.cudnn.allow_tf32 = False
        module = convert(onnx.load(model)).eval().to(device)
        self._tensors = [torch.from_numpy(array).to(device) for array in inputs.values()]
        self._has_queue = device != "cpu"
        self._run: Any = _compile(module, device=device) if inductor else module
        self.threads = torch.get_num_threads()
        self.versions = {"torch": torch.__version__}
        self.settings = {"torch._inductor.config.freezing": True} if inductor and device == "cpu" else {}
        if inductor:
            self.infer()  # the first call compiles

    def outputs(self) -> Sequence[Array]:
        """Run once and copy the outputs."""
        with torch.inference_mode():
            return [tensor.cpu().numpy().copy() for tensor in self._run(*self._tensors)]

    def infer(self) -> None:
        """Run once, and wait until the device has finished."""
        with torch.inference_mode():
            self._run(*self._tensors)
        if self._has_queue:
            torch.cuda.synchronize()


def _compile(module: torch.nn.Module, *, device: str) -> Any:
    from torch._inductor import config

    # Weights become constants that are packed ahead of time, as PyTorch's documentation advises for inference on CPUs.
    config.freezing = device == "cpu"
    return torch.compile(module, fullgraph=True)


def open_engine(model: str, *, threads: int, inputs: Inputs, inductor: bool = False, device: str = "cpu") -> Torch:
    """Convert a model file; with ``inductor`` compile it too."""
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor, device=device)
