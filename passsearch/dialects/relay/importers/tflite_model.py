"""Importer of TFLite files."""

import struct
from collections.abc import Mapping
from typing import Any

import tflite
import tvm
from tvm import relay

from passsearch.core import DeclaredInput
from passsearch.dialects.contract import ModelSource
from passsearch.errors import UserError

_DTYPES = {number: name.lower() for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}


def read(source: ModelSource) -> tuple[tvm.IRModule, Mapping[str, tvm.nd.NDArray]]:
    """Return the main subgraph and its parameters.

    Raises:
        UserError: The file is not TFLite, or an input stays open.
    """
    data = source.path.read_bytes()
    try:
        model = tflite.Model.GetRootAsModel(data, 0)
        graph = model.Subgraphs(0)
        declared = [_declared(graph.Tensors(index)) for index in graph.InputsAsNumpy()]
    except (struct.error, AttributeError, IndexError, TypeError) as error:
        raise UserError(f"Cannot read `{source.path}` as TFLite ({error}); convert the network again.") from error
    types = source.bind_inputs(declared)
    shapes = {name: kind.shape for name, kind in types.items()}
    module, params = relay.frontend.from_tflite(model, shapes, {name: kind.dtype for name, kind in types.items()})
    return module, params


def _declared(tensor: Any) -> DeclaredInput:
    # The signature has -1 for an open dimension; the shape has the size of the trace instead.
    sizes = tensor.ShapeAsNumpy() if tensor.ShapeSignatureIsNone() else tensor.ShapeSignatureAsNumpy()
    shape = tuple(int(size) if size > 0 else None for size in (() if isinstance(sizes, int) else sizes))
    return DeclaredInput(tensor.Name().decode(), shape, _DTYPES[tensor.Type()])
