"""Converts an ONNX graph to a function of JAX, operator by operator.

Only the operators of passsearch's built-in networks are known; ``onnx_nodes.py`` refuses anything else.
PyTorch's ways to XLA are not used: torchax 0.0.13 does not import beside torch 2.13, and torch_xla ends at 2.9.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import jax
import numpy as np
import onnx
from jax import lax
from jax import numpy as jnp
from onnx import numpy_helper

from passsearch.engines.onnx_nodes import Attributes, call_rule, checked_nodes

Rule: TypeAlias = Callable[[Sequence[Any], Attributes], Any]
"""Returns the result of an operator, from its inputs and attributes."""
Network: TypeAlias = Callable[[Mapping[str, Any], Sequence[Any]], tuple[Any, ...]]
"""Returns the outputs, from the weights by name and the inputs in order."""

DIRECT: Mapping[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
    "Div": operator.truediv,
    "Pow": operator.pow,
    "MatMul": jnp.matmul,
    "Relu": jax.nn.relu,
    "Sigmoid": jax.nn.sigmoid,
    "Tanh": jnp.tanh,
    "Erf": lax.erf,
    "Sqrt": jnp.sqrt,
    "Clip": jnp.clip,
    "Where": jnp.where,
    "Reshape": jnp.reshape,
    "Expand": jnp.broadcast_to,
}
"""Operators whose inputs are the function's arguments."""


def _conv(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, weight = inputs[:2]
    result = lax.conv_general_dilated(
        data,
        weight,
        attributes["strides"],
        _padding(attributes),
        rhs_dilation=attributes["dilations"],
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        feature_group_count=attributes["group"],
    )
    return _with_bias(result, inputs)


def _with_bias(result: Any, inputs: Sequence[Any]) -> Any:
    return result + inputs[2].reshape(1, -1, 1, 1) if inputs[2:] else result


def _conv_transpose(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, weight = inputs[:2]
    assert data.ndim == 4, data.shape
    assert attributes["group"] == 1, attributes
    output_padding, sizes = attributes.get("output_padding", [0, 0]), attributes["kernel_shape"]
    spans = [step * (size - 1) for step, size in zip(attributes["dilations"], sizes, strict=True)]
    padding = [
        (span - before, span - after + further)
        for span, (before, after), further in zip(spans, _padding(attributes), output_padding, strict=True)
    ]
    result = lax.conv_general_dilated(
        data,
        jnp.flip(weight, (2, 3)),
        (1, 1),
        padding,
        lhs_dilation=attributes["strides"],
        rhs_dilation=attributes["dilations"],
        dimension_numbers=("NCHW", "IOHW", "NCHW"),
    )
    return _with_bias(result, inputs)


def _padding(attributes: Attributes) -> list[tuple[int, int]]:
    top, left, bottom, right = attributes["pads"]
    return [(top, bottom), (left, right)]


def _max_pool(inputs: Sequence[Any], attributes: Attributes) -> Any:
    window, strides = ((1, 1, *attributes[name]) for name in ("kernel_shape", "strides"))
    return lax.reduce_window(inputs[0], -np.inf, lax.max, window, strides, [(0, 0), (0, 0), *_padding(attributes)])


def _batch_norm(inputs: Sequence[Any], attributes: Attributes) -> Any:
    data, scale, bias, mean, variance = inputs
    factor = scale / jnp.sqrt(variance + attributes["epsilon"])
    return data * factor.reshape(1, -1, 1, 1) + (bias - mean * factor).reshape(1, -1, 1, 1)


def _gemm(inputs: Sequence[Any], attributes: Attributes) -> Any:
    assert (attributes["alpha"], attributes["beta"], attributes["transB"]) == (1.0, 1.0, 1)
    data, weight, *biases = inputs
    return sum(biases, data @ weight.T)


def _cast(inputs: Sequence[Any], attributes: Attributes) -> Any:
    return inputs[0].astype(onnx.helper.tensor_dtype_to_np_dtype(attributes["to"]))


def _split(inputs: Sequence[Any], attributes: Attributes) -> Any:
    return jnp.split(inputs[0], np.cumsum(inputs[1])[:-1], axis=attributes["axis"])


RULES: Mapping[str, Rule] = {
    **{name: partial(lambda function, inputs, _: function(*inputs), function) for name, function in DIRECT.items()},
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "BatchNormalization": _batch_norm,
    "Gemm": _gemm,
    "Cast": _cast,
    "MaxPool": _max_pool,
    "Split": _split,
    "Unsqueeze": lambda inputs, _: jnp.expand_dims(inputs[0], tuple(inputs[1])),
    "Squeeze": lambda inputs, _: jnp.squeeze(inputs[0], tuple(inputs[1])),
    "Gather": lambda inputs, of: jnp.take(inputs[0], inputs[1], axis=of["axis"]),
    "GlobalAveragePool": lambda inputs, _: jnp.mean(inputs[0], axis=(2, 3), keepdims=True),
    "Flatten": lambda inputs, of: inputs[0].reshape(int(np.prod(inputs[0].shape[: of["axis"]])), -1),
    "Softmax": lambda inputs, of: jax.nn.softmax(inputs[0], axis=of["axis"]),
    "Transpose": lambda inputs, of: jnp.transpose(inputs[0], of["perm"]),
    "Concat": lambda inputs, of: jnp.concatenate(inputs, axis=of["axis"]),
    "ReduceMean": lambda inputs, of: jnp.mean(inputs[0], axis=tuple(of["axes"]), keepdims=bool(of["keepdims"])),
}


def convert(model: onnx.ModelProto) -> tuple[Network, dict[str, Any]]:
    """Return a function that computes the graph, and the weights that it takes.

    Raises:
        NotImplementedError: There is no rule for an operator, for one of its attributes, or for the operator set.
    """
    nodes = checked_nodes(model, RULES)
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    # Shapes and axes must be known when the function is compiled.
    shapes = {name: array.tolist() for name, array in tensors.items() if array.dtype == np.int64 and array.ndim < 2}
    names, results = ([each.name for each in values] for values in (model.graph.input, model.graph.output))

    def network(weights: Mapping[str, Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        values = {**shapes, **weights, **dict(zip(names, inputs, strict=True))}
        for node, attributes in nodes:
            result = call_rule(RULES[node.op_type], node, values, attributes)
            values |= (
                dict(zip(node.output, result, strict=True)) if node.op_type == "Split" else {node.output[0]: result}
            )
        return tuple(values[name] for name in results)

    return network, {name: array for name, array in tensors.items() if name not in shapes}
