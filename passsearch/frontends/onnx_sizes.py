"""Smaller sizes for an ONNX network: one size becomes another one wherever it stands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from passsearch.frontends.onnx_constants import random_array

if TYPE_CHECKING:
    import onnx

LEAST_SIZE = 4
"""Size from which one is made smaller; smaller ones are mostly windows of kernels."""


def sizes_of(model: onnx.ModelProto) -> list[int]:
    """Return the sizes of inputs and weights that may become smaller, the largest first."""
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input]
    shapes += [list(weight.dims) for weight in model.graph.initializer]
    return sorted({size for shape in shapes for size in shape if size > LEAST_SIZE}, reverse=True)


def resize(model: onnx.ModelProto, sizes: Mapping[int, int], *, original: Collection[str]) -> bool:
    """Give a network other sizes, in its inputs, weights and constants of shapes; return whether they fit together.

    Args:
        model: The network, which is changed.
        sizes: New sizes by the old ones.
        original: Weights whose values, and so whose sizes, stay.
    """
    import numpy as np
    import onnx
    from onnx import numpy_helper, shape_inference

    for value in model.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_value = sizes.get(dim.dim_value, dim.dim_value)
    for number, weight in enumerate(model.graph.initializer):
        dims = [sizes.get(size, size) for size in weight.dims]
        if weight.name not in original and dims != list(weight.dims):
            empty = onnx.TensorProto(data_type=weight.data_type, dims=dims)
            weight.CopyFrom(numpy_helper.from_array(random_array(empty, seed=number), weight.name))
        elif weight.name in original and weight.data_type == onnx.TensorProto.INT64:
            array = numpy_helper.to_array(weight)
            changed = np.array([sizes.get(int(each), int(each)) for each in array.ravel()], "int64")
            weight.CopyFrom(numpy_helper.from_array(changed.reshape(array.shape), weight.name))
    for attribute in (each for node in model.graph.node for each in node.attribute if each.name == "group"):
        attribute.i = sizes.get(attribute.i, attribute.i)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return False
    for value, known in zip(model.graph.output, inferred.graph.output, strict=True):
        value.CopyFrom(known)
    return True
