"""PyTorch on a GPU of NVIDIA, eager or compiled by Inductor, its launches recorded as a CUDA graph."""

from typing import Any

from passsearch.engines.adapters.torch import ENVIRONMENT, FLOAT32, Torch
from passsearch.engines.contract import Inputs

__all__ = ["DEVICES", "ENGINES", "ENVIRONMENT", "open_engine"]

ENGINES: dict[str, dict[str, Any]] = {"torch-graph": {}, "inductor-graph": {"inductor": True}}
DEVICES = ("cuda",)


def open_engine(
    model: str,
    *,
    threads: int | None,
    inputs: Inputs,
    inductor: bool = False,
    device: str = "cuda",
    precision: str = FLOAT32,
) -> Torch:
    """Convert a model file and record the launches of an inference; ``inductor`` compiles it before."""
    common: Any = {"device": device, "precision": precision, "graph": True}
    return Torch(model, threads=threads, inputs=inputs, inductor=inductor, **common)
