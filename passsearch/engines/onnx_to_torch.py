"""Converts an ONNX graph to a PyTorch module, operator by operator.

Only the operators of passsearch's built-in networks are known; ``onnx_nodes.py`` refuses anything else. For networks
from elsewhere another engine is the reference of outputs where there is one (``api/benchmark.py``), so that a wrong
rule does not go unnoticed. The package ``onnx2torch`` is not used: it needs torchvision, and its modules check shapes
while they run, which would slow eager PyTorch and split the graph that Inductor compiles.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

from passsearch.engines.onnx_nodes import Attributes, call_rule, checked_nodes

Rule: TypeAlias = Callable[[Sequence[Any], Attributes], tuple[Callable[..., Any], tuple[Any, ...]]]
"""Returns the function and the arguments that stand for an operator, from its inputs and attributes."""

DIRECT: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "MatMul": torch.matmul,
    "Relu": functional.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "Erf": torch.erf,
    "Sqrt": torch.sqrt,
    "Reciprocal": torch.reciprocal,
    "Neg": operator.neg,
    "Clip": torch.clamp,
    "Where": torch.where,
    "Reshape": torch.reshape,
    "Expand": torch.broadcast_to,
}
"""Operators whose inputs are the function's arguments."""


def _direct(function: Callable[..., Any], inputs: Sequence[Any], _: Attributes) -> Any:
    return function, tuple(inputs)


def _conv(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, weight, bias = (*inputs, None)[:3]
    return functional.conv2d, (
        data,
        weight,
        bias,
        attributes["strides"],
        _padding(attributes),
        attributes["dilations"],
        attributes["group"],
    )


def _conv_transpose(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, weight, bias = (*inputs, None)[:3]
    output_padding = attributes.get("output_padding", [0, 0])
    sizes = attributes["strides"], _padding(attributes), output_padding
    return functional.conv_transpose2d, (data, weight, bias, *sizes, attributes["group"], attributes["dilations"])


def _padding(attributes: Attributes) -> list[int]:
    """Return the padding of height and width; PyTorch pads both ends alike."""
    top, left, bottom, right = attributes["pads"]
    assert (top, left) == (bottom, right), attributes["pads"]
    return [top, left]


def _batch_norm(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, scale, bias, mean, variance = inputs
    return functional.batch_norm, (data, mean, variance, scale, bias, False, 0.0, attributes["epsilon"])


def _gemm(inputs: Sequence[Any], attributes: Attributes) -> Any:
    assert (attributes["alpha"], attributes["beta"], attributes["transB"]) == (1.0, 1.0, 1)
    return functional.linear, tuple(inputs)


def _unsqueeze(inputs: Sequence[Any], _: Attributes) -> Any:
    data, (axis,) = inputs
    return torch.unsqueeze, (data, axis)


def _cast(inputs: Sequence[Any], attributes: Attributes) -> Any:
    assert attributes["to"] == onnx.TensorProto.FLOAT
    return torch.Tensor.to, (inputs[0], attributes["dtype"])


def _gather(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, place = inputs
    if isinstance(place, int):
        return torch.select, (data, attributes["axis"], place)
    assert attributes["axis"] == 0
    return functional.embedding, (place, data)


def _slice(inputs: Sequence[Any], _: Attributes) -> Any:
    data, (start,), (end,), (axis,) = inputs
    assert 0 <= start < end, (start, end)
    return torch.narrow, (data, axis, start, end - start)


def _flatten(inputs: Sequence[Any], attributes: Attributes) -> Any:
    # With another axis ONNX makes a matrix, and PyTorch keeps the axes before it.
    assert attributes["axis"] == 1, attributes
    return torch.flatten, (inputs[0], 1)


def _mean_of_images(data: torch.Tensor) -> torch.Tensor:
    if data.ndim != 4:
        raise NotImplementedError(f"no rule for the ONNX operator GlobalAveragePool with {data.ndim} axes")
    return functional.adaptive_avg_pool2d(data, 1)


def _permute(data: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    # Keys of an attention. Inductor of torch 2.13 takes them in the two steps that PyTorch's own code writes; from one
    # step its pattern for attention with a mask raises an error. Both are views and cost nothing.
    if list(order) == [0, 2, 3, 1]:
        return data.permute(0, 2, 1, 3).transpose(-2, -1)
    return data.permute(*order)


RULES: Mapping[str, Rule] = {
    **{name: partial(_direct, function) for name, function in DIRECT.items()},
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    "Gemm": _gemm,
    "Unsqueeze": _unsqueeze,
    "Cast": _cast,
    "Gather": _gather,
    "Slice": _slice,
    "MaxPool": lambda inputs, of: (
        functional.max_pool2d,
        (inputs[0], of["kernel_shape"], of["strides"], _padding(of)),
    ),
    "GlobalAveragePool": lambda inputs, _: (_mean_of_images, tuple(inputs)),
    "Flatten": _flatten,
    "Softmax": lambda inputs, of: (torch.softmax, (inputs[0], of["axis"])),
    "Transpose": lambda inputs, of: (_permute, (inputs[0], of["perm"])),
    "Concat": lambda inputs, of: (torch.cat, (list(inputs), of["axis"])),
    "Split": lambda inputs, of: (torch.split, (inputs[0], inputs[1], of["axis"])),
    "ReduceMean": lambda inputs, of: (torch.mean, (inputs[0], of["axes"], bool(of["keepdims"]))),
    "Squeeze": lambda inputs, _: (torch.squeeze, (inputs[0], inputs[1])),
}


def convert(model: onnx.ModelProto, *, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
    """Return a module whose inputs and outputs, a tuple, have the order of the ONNX graph.

    Args:
        model: The graph with its weights.
        dtype: Type that stands for float32.

    Raises:
        NotImplementedError: There is no rule for an operator, for one of its attributes, or for the operator set.
    """
    root, graph = torch.nn.Module(), torch.fx.Graph()
    values = {value.name: graph.placeholder(value.name) for value in model.graph.input}
    for place, tensor in enumerate(model.graph.initializer):
        # Names of weights may have dots, which those of buffers may not.
        values[tensor.name] = _constant(tensor, f"weight_{place}", root=root, graph=graph)
    for node, attributes in checked_nodes(model, RULES):
        call = call_rule(RULES[node.op_type], node, values, {**attributes, "dtype": dtype})
        result = graph.call_function(*call)
        if len(node.output) == 1:
            values[node.output[0]] = result
        else:
            parts = [graph.call_function(operator.getitem, (result, place)) for place in range(len(node.output))]
            values |= dict(zip(node.output, parts, strict=True))
    graph.output(tuple(values[output.name] for output in model.graph.output))
    return torch.fx.GraphModule(root, graph)


def _constant(tensor: onnx.TensorProto, name: str, *, root: torch.nn.Module, graph: torch.fx.Graph) -> Any:
    """Return a number for a scalar, a list for a shape or axes, and else a tensor of the module with this name."""
    array = numpy_helper.to_array(tensor)
    if array.ndim == 0:
        return array.item()
    if array.ndim == 1 and array.dtype == np.int64:
        return array.tolist()
    root.register_buffer(name, torch.from_numpy(array.copy()))
    return graph.get_attr(name)
