"""ONNX files."""

import onnx
import tvm
from tvm.relax.frontend.onnx import from_onnx

from passsearch.dialects.contract import ModelSource


def read(source: ModelSource) -> tvm.IRModule:
    """The graph, weights as constants; the front end has read the file before."""
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    return from_onnx(onnx.load(str(source.path)), shape_dict=shapes or None, dtype_dict=types or "float32")
