"""ONNX files."""

from collections.abc import Mapping

import onnx
import tvm
from tvm import relay

from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """The graph, weights as constants.

    Raises:
        UserError: It is not ONNX.
    """
    try:
        model = onnx.load(str(source.path))
    except Exception as error:  # onnx raises protobuf's own, unnamed here
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"Cannot read `{source.path}` as ONNX: {reason}") from error
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    module, params = relay.frontend.from_onnx(model, shape=shapes, dtype=types or "float32", freeze_params=True)
    return module, params
