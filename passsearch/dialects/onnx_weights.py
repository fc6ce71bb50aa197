"""Weights that an ONNX file keeps in other files: the large ones are mapped into memory and not read.

A mapping takes no memory of its own, and all processes that map one file share its pages.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper, helper

from passsearch.dialects.constant_table import MAPPED_BYTES
from passsearch.dialects.contract import Array


def load(path: Path) -> onnx.ModelProto:
    """Return a model with all its weights but the large ones in other files, which ``is_mapped`` tells."""
    model = onnx.load(str(path), load_external_data=False)
    small = (weight for weight in model.graph.initializer if not is_mapped(weight))
    for tensor in (*small, *_inner_tensors(model.graph)):
        if external_data_helper.uses_external_data(tensor):
            external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
            tensor.data_location = TensorProto.DEFAULT
            del tensor.external_data[:]
    return model


def is_mapped(tensor: TensorProto) -> bool:
    """Return whether the values of a tensor are in another file and large."""
    return tensor.data_location == TensorProto.EXTERNAL and _bytes(tensor) >= MAPPED_BYTES


def mapped_array(tensor: TensorProto, folder: Path) -> Array:
    """Return the values of a tensor in another file; changes of them do not reach the file.

    Raises:
        ValueError: The file is shorter than the tensor.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    dtype, shape = helper.tensor_dtype_to_np_dtype(tensor.data_type), tuple(tensor.dims)
    offset = int(entries.get("offset", 0))
    return np.memmap(folder / entries["location"], dtype, mode="c", offset=offset, shape=shape)


def _bytes(tensor: TensorProto) -> int:
    return int(helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize) * math.prod(tensor.dims)


def _inner_tensors(graph: onnx.GraphProto) -> Iterator[TensorProto]:
    """Yield the tensors in attributes, and the weights of the branches there."""
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for inner in (attribute.g, *attribute.graphs):
            yield from inner.initializer
            yield from _inner_tensors(inner)
