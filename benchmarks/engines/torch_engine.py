"""PyTorch on the CPU, eager or compiled by Inductor, on the operators of the ONNX file."""

from collections.abc import Sequence
from typing import Any

import onnx
import torch

from engines.contract import Array, Inputs
from engines.onnx_to_torch import convert


class Torch:
    """A module with its inputs as tensors."""

    def __init__(self, model: str, *, threads: int, inputs: Inputs, inductor: bool) -> None:
        torch.set_num_threads(threads)
        module = convert(onnx.load(model)).eval()
        self._tensors = [torch.from_numpy(array) for array in inputs.values()]
        self._run: Any = _compile(module) if inductor else module
        self.threads = torch.get_num_threads()
        self.versions = {"torch": torch.__version__}
        self.settings = {"torch._inductor.config.freezing": True} if inductor else {}
        if inductor:
            self.infer()  # the first call compiles

    def outputs(self) -> Sequence[Array]:
        """Run once and copy the outputs."""
        with torch.inference_mode():
            return [tensor.numpy().copy() for tensor in self._run(*self._tensors)]

    def infer(self) -> None:
        """Run once."""
        with torch.inference_mode():
            self._run(*self._tensors)


def _compile(module: torch.nn.Module) -> Any:
    from torch._inductor import config

    # Weights become constants that are packed ahead of time, as PyTorch's documentation advises for inference on CPUs.
    config.freezing = True
    return torch.compile(module, fullgraph=True)


def open_engine(model: str, *, threads: int, inputs: Inputs, inductor: bool = False) -> Torch:
    """Convert a model file; with ``inductor`` compile it too."""
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor)
