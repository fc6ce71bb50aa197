"""ONNX Runtime on a GPU of NVIDIA."""

from typing import Any

from passsearch.core.engine_environment import EngineEnvironment
from passsearch.engines.adapters.onnxruntime import open_engine
from passsearch.engines.contract import REQUIREMENTS

__all__ = ["DEVICES", "ENGINES", "ENVIRONMENT", "open_engine"]

ENVIRONMENT = EngineEnvironment(
    "onnxruntime-cuda",
    REQUIREMENTS,
    ("onnxruntime",),
    disk_bytes=5_000_000_000,
    requirement="onnxruntime-gpu[cuda,cudnn]==1.31.1",
)
ENGINES: dict[str, dict[str, Any]] = {"onnxruntime-cuda": {}}
DEVICES = ("cuda",)
