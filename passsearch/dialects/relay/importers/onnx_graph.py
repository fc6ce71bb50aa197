"""Importer of ONNX files."""

from collections.abc import Mapping

import onnx
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.relay.importers.local_inference import local_inference


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the graph, its weights as constants."""
    # The front end has read the file before, so an unreadable file does not reach this line.
    model = onnx.load(str(source.path))
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    with local_inference(relay.frontend.onnx):
        module, params = relay.frontend.from_onnx(model, shape=shapes, dtype=types or "float32", freeze_params=True)
    return module, params
