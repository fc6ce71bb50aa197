"""Importer of ONNX files."""

from collections.abc import Mapping
from unittest.mock import patch

import onnx
import tvm
from tvm import relay
from tvm.relay.frontend import onnx as onnx_frontend
from tvm.relay.frontend.onnx import GraphProto

from passsearch.dialects.contract import ModelSource
from passsearch.dialects.refusal import naming_operator
from passsearch.dialects.relay.errors import IMPORT_ERRORS
from passsearch.dialects.relay.importers.onnx_converters import with_own


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the graph, its weights as constants."""
    # The front end has read the file before, so an unreadable file does not reach this line.
    model = onnx.load(str(source.path))
    shapes = {name: list(kind.shape) for name, kind in source.inputs.items()}
    types = {name: kind.dtype for name, kind in source.inputs.items()}
    convert = naming_operator(GraphProto._convert_operator, IMPORT_ERRORS)
    # TVM has no interface to replace a converter, so its table is patched during the import.
    converters = with_own(onnx_frontend._get_convert_map)
    with (
        patch.object(onnx_frontend, "_get_convert_map", converters),
        patch.object(GraphProto, "_convert_operator", convert),
    ):
        module, params = relay.frontend.from_onnx(model, shape=shapes, dtype=types or "float32", freeze_params=True)
    return module, params
