"""A module of transformers with one output, for networks that are written as ONNX; needs nothing of passsearch."""

from typing import Any


def one_output(module: Any) -> Any:
    """Return a module of transformers with its main output alone."""
    import torch

    class OneOutput(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.module = module

        def forward(self, inputs: Any) -> Any:
            outputs = self.module(inputs)
            return outputs.logits if "logits" in outputs else outputs.last_hidden_state

    return OneOutput()
