"""The constants of ONNX networks: which of them may get random values, and those values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx

STRUCTURE = {
    **dict.fromkeys(("Reshape", "Expand", "Tile", "Unsqueeze", "Squeeze", "Split", "TopK", "Gather", "Pad"), (1,)),
    **dict.fromkeys(("GatherND", "GatherElements", "ScatterND", "ScatterElements", "CumSum", "Trilu"), (1,)),
    **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "NonZero"), (0,)),
    **dict.fromkeys(("Range", "OneHot"), (0, 1, 2)),
    **dict.fromkeys(("Slice", "Resize", "Upsample"), (1, 2, 3, 4)),
}
"""Places of the inputs that are shapes, indices, axes or sizes, by operator."""

SCALES = {
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), (1, 2)),
    **dict.fromkeys(("QLinearConv", "QLinearMatMul"), (1, 2, 4, 5, 6, 7)),
    **dict.fromkeys(("MatMulInteger", "ConvInteger"), (2, 3)),
}
"""Places of the inputs that are scales and zero points, by operator."""

STRUCTURE_REASON, SCALE_REASON = "shape, index, axis or size", "scale or zero point"

SETTING_DOMAINS = ("", "ai.onnx", "com.microsoft")
"""Domains of operators whose texts and lists of integers are settings, and no values of a network."""


def kept_reason(nodes: Sequence[onnx.NodeProto], weight: onnx.TensorProto) -> str:
    """Return why a weight must keep its values; empty if it may get random ones."""
    for node in nodes:
        for place, name in enumerate(node.input):
            if name == weight.name and place in STRUCTURE.get(node.op_type, ()):
                return STRUCTURE_REASON
            if name == weight.name and place in SCALES.get(node.op_type, ()):
                return SCALE_REASON
    return ""


def random_array(tensor: onnx.TensorProto, *, seed: int) -> npt.NDArray[Any]:
    """Return an array of the same shape and dtype whose values come from a generator alone.

    Matrices are normal, of a size that keeps results of products near 1. Vectors and single numbers lie between 0.5 and
    1.5: among them are variances and divisors, which must be neither negative nor 0.
    """
    import numpy as np
    from onnx import TensorProto, helper

    rng, shape = np.random.default_rng(seed), tuple(tensor.dims)
    dtype: Any = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    if tensor.data_type == TensorProto.STRING:
        return np.array([str(number) for number in range(math.prod(shape))], object).reshape(shape)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        # Wider integers are mostly indices, of which 0 and 1 nearly always exist.
        limits = np.iinfo(dtype) if np.dtype(dtype).itemsize == 1 else None
        return rng.integers(limits.min if limits else 0, (limits.max if limits else 1) + 1, shape).astype(dtype)
    if sum(size > 1 for size in shape) < 2:
        return (0.5 + rng.random(shape)).astype(dtype)
    return (rng.standard_normal(shape) / math.sqrt(math.prod(shape) / max(shape))).astype(dtype)


def with_constants_as_weights(model: onnx.ModelProto) -> None:
    """Replace the nodes of constants by weights, so that they are treated alike."""
    from onnx import numpy_helper

    nodes = []
    for node in model.graph.node:
        array = _constant(node) if node.op_type == "Constant" else None
        if array is None:
            nodes.append(node)
        else:
            model.graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    # Weights that an input declares too are no inputs.
    weights = {weight.name for weight in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights or value.name not in used]
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def lift_from_branches(model: onnx.ModelProto) -> None:
    """Move the weights of branches to the network, so that they are treated alike.

    Only those of floats: importers look for shapes and indices in the branch. What a branch returns must be its own.
    """
    for node in nodes_of(model.graph):
        for branch in graphs_of(node):
            _lift(branch, model.graph)


def _lift(branch: onnx.GraphProto, graph: onnx.GraphProto) -> None:
    from onnx import TensorProto, numpy_helper

    floats = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
    returned = {value.name for value in branch.output}
    lifted: dict[str, str] = {}
    constants = [(node, node.output[0], _constant(node)) for node in branch.node if node.op_type == "Constant"]
    found: list[tuple[Any, Any, onnx.TensorProto]] = [
        *(
            (branch.node, node, numpy_helper.from_array(array, name))
            for node, name, array in constants
            if array is not None
        ),
        *((branch.initializer, weight, weight) for weight in branch.initializer),
    ]
    for parts, part, weight in found:
        if weight.data_type in floats and weight.name not in returned:
            lifted[weight.name] = f"branch {len(graph.initializer)}: {weight.name}"
            graph.initializer.add().CopyFrom(weight)
            graph.initializer[-1].name = lifted[weight.name]
            parts.remove(part)
    for node in nodes_of(branch):
        node.input[:] = [lifted.get(name, name) for name in node.input]


def nodes_of(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """Return all nodes, those in branches included."""
    inner = [node for outer in graph.node for branch in graphs_of(outer) for node in nodes_of(branch)]
    return [*graph.node, *inner]


def attribute_values(graph: onnx.GraphProto) -> list[str]:
    """Return the attributes that hold numbers or texts of the network, as ``operator.attribute``."""
    from onnx import AttributeProto

    found = set()
    for node in graph.node:
        kinds = {AttributeProto.FLOAT, AttributeProto.FLOATS, AttributeProto.TENSOR, AttributeProto.TENSORS}
        kinds |= {AttributeProto.SPARSE_TENSOR, AttributeProto.STRINGS}
        if node.domain not in SETTING_DOMAINS:
            kinds |= {AttributeProto.STRING, AttributeProto.INTS}
        found |= {f"{node.op_type}.{attribute.name}" for attribute in node.attribute if attribute.type in kinds}
        for inner in graphs_of(node):
            found |= {*attribute_values(inner), *([f"{node.op_type}.{inner.name}"] if inner.initializer else [])}
    return sorted(found)


def graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Yield the branches of a node."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def _constant(node: onnx.NodeProto) -> npt.NDArray[Any] | None:
    import numpy as np
    from onnx import helper, numpy_helper

    for attribute in node.attribute:
        if attribute.name == "value":
            return np.array(numpy_helper.to_array(attribute.t))
        if attribute.name in ("value_float", "value_floats"):
            return np.array(helper.get_attribute_value(attribute), "float32")
        if attribute.name in ("value_int", "value_ints"):
            return np.array(helper.get_attribute_value(attribute), "int64")
    return None
