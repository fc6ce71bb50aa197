"""Converters of ONNX's functions of single elements that TVM's importer of Relay gets wrong.

* ``Elu``, ``Selu``, ``Celu``, ``Sign``, ``Max``, ``Min``, ``ThresholdedRelu`` and ``Shrink`` make a number of what is
  not a number. Some of them, and ``HardSigmoid``, refuse other types than float32.
* ``Softplus``, ``Mish`` and ``LogSoftmax`` overflow for large values.
* ``BitShift`` by the width of the type or more is what the processor makes of it; signed integers are refused.
* ``Clip`` with an upper bound below the lower one gives the lower one, and an infinity stays where there is no bound.
* ``Mean`` joins its inputs and takes the mean over the first dimension.
* ``Mod`` of floats without ``fmod`` is not defined by ONNX; it is computed as Python does.
* ``Softsign`` refuses other types than float32.
* ``PRelu`` broadcasts its slopes from the last dimension on, as ONNX defines it from operator set 7 on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import tvm
from tvm import relay
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.relay.importers.local_inference import dtype_of

Converter: TypeAlias = Callable[[Any, Any, Any], Any]


def _is_float(value: Any) -> bool:
    return "float" in dtype_of(value)


def keep_nan(value: Any, result: Any) -> Any:
    """Return the result, and what is not a number where the value is none."""
    return relay.where(relay.isnan(value), value, result) if _is_float(value) else result


def largest(left: Any, right: Any) -> Any:
    """Return the larger of two values; what is not a number on either side stays so."""
    return _of_two(relay.maximum, left, right)


def smallest(left: Any, right: Any) -> Any:
    """Return the smaller of two values; what is not a number on either side stays so."""
    return _of_two(relay.minimum, left, right)


def _of_two(choose: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    # TVM's code is `left > right ? left : right`, which keeps what is not a number on the right side only.
    if isinstance(right, relay.Constant):
        left, right = right, left
    if isinstance(left, relay.Constant) and not np.isnan(left.data.numpy()).any():
        return choose(left, right)
    chosen = choose(left, right)
    if not _is_float(left):
        return chosen
    return relay.where(relay.isnan(left), left + relay.zeros_like(right), chosen)


def _of_all(choose: Callable[[Any, Any], Any]) -> Converter:
    def convert(inputs: Any, attr: Any, params: Any) -> Any:
        values = list(inputs)
        # Not the input itself, which would get the name of the output as its own.
        return functools.reduce(choose, values) if values[1:] else relay.copy(values[0])

    return convert


def _mean(inputs: Any, attr: Any, params: Any) -> Any:
    values = list(inputs)
    return functools.reduce(relay.add, values) / relay.const(len(values), dtype_of(values[0]))


def _exponential(value: Any, *, alpha: float, scale: float = 1.0, width: float = 1.0) -> Any:
    """Return scale * x above zero and scale * alpha * (exp(x / width) - 1) below."""
    dtype = dtype_of(value)
    zero, one = relay.const(0, dtype), relay.const(1, dtype)
    below = relay.exp(relay.minimum(zero, value / relay.const(width, dtype))) - one
    return relay.const(scale, dtype) * relay.where(relay.greater(value, zero), value, relay.const(alpha, dtype) * below)


def _elu(inputs: Any, attr: Any, params: Any) -> Any:
    return _exponential(inputs[0], alpha=attr.get("alpha", 1.0))


def _selu(inputs: Any, attr: Any, params: Any) -> Any:
    alpha, gamma = attr.get("alpha", 1.6732632423543772), attr.get("gamma", 1.0507009873554805)
    return _exponential(inputs[0], alpha=alpha, scale=gamma)


def _celu(inputs: Any, attr: Any, params: Any) -> Any:
    alpha = attr.get("alpha", 1.0)
    return _exponential(inputs[0], alpha=alpha, width=alpha)


def _hard_sigmoid(inputs: Any, attr: Any, params: Any) -> Any:
    value, dtype = inputs[0], dtype_of(inputs[0])
    slope, shift = relay.const(attr.get("alpha", 0.2), dtype), relay.const(attr.get("beta", 0.5), dtype)
    # A clip and not two comparisons: the analysis of networks knows the function by it.
    return relay.clip(value * slope + shift, 0, 1)


def _sign(inputs: Any, attr: Any, params: Any) -> Any:
    return keep_nan(inputs[0], relay.sign(inputs[0]))


def _thresholded_relu(inputs: Any, attr: Any, params: Any) -> Any:
    dtype = dtype_of(inputs[0])
    is_below = relay.less_equal(inputs[0], relay.const(attr.get("alpha", 1.0), dtype))
    return relay.where(is_below, relay.const(0, dtype), inputs[0])


def _shrink(inputs: Any, attr: Any, params: Any) -> Any:
    value, dtype = inputs[0], dtype_of(inputs[0])
    limit, bias = relay.const(attr.get("lambd", 0.5), dtype), relay.const(attr.get("bias", 0.0), dtype)
    zero = relay.const(0, dtype)
    above = relay.where(relay.greater(value, limit), value - bias, keep_nan(value, relay.zeros_like(value)))
    return relay.where(relay.less(value, zero - limit), value + bias, above)


def softplus(value: Any) -> Any:
    """Return log(1 + exp(x)) without an exponential of a large number."""
    dtype = dtype_of(value)
    zero, one = relay.const(0, dtype), relay.const(1, dtype)
    return largest(zero, value) + relay.log(one + relay.exp(relay.negative(relay.abs(value))))


def _softplus(inputs: Any, attr: Any, params: Any) -> Any:
    return softplus(inputs[0])


def _softsign(inputs: Any, attr: Any, params: Any) -> Any:
    return inputs[0] / (relay.const(1, dtype_of(inputs[0])) + relay.abs(inputs[0]))


def _mish(inputs: Any, attr: Any, params: Any) -> Any:
    return inputs[0] * relay.tanh(softplus(inputs[0]))


def _log_softmax(axis: int, flattens: bool) -> Converter:
    def convert(inputs: Any, attr: Any, params: Any) -> Any:
        shape = infer_shape(inputs[0])
        along = attr.get("axis", axis) % len(shape)
        if not flattens:
            return _log_softmax_along(inputs[0], along)
        rows = relay.reshape(inputs[0], (math.prod(shape[:along]), -1))
        return relay.reshape(_log_softmax_along(rows, 1), shape)

    return convert


def _log_softmax_along(value: Any, axis: int) -> Any:
    gap = value - relay.max(value, axis=axis, keepdims=True)
    return gap - relay.log(relay.sum(relay.exp(gap), axis=axis, keepdims=True))


def _clip(inputs: Any, attr: Any, params: Any) -> Any:
    data, low, high, dtype = inputs[0], inputs[1], inputs[2], dtype_of(inputs[0])
    if _is_float(data):
        lowest, highest = (limit(dtype).value for limit in (tvm.tir.min_value, tvm.tir.max_value))
        low = relay.const(attr.get("min", lowest), dtype) if low is None else low
        high = relay.const(attr.get("max", highest), dtype) if high is None else high
        values = [bound.data.numpy().item() for bound in (low, high) if isinstance(bound, relay.Constant)]
        # TVM removes a clip to all finite numbers, which infinities are none of.
        if len(values) == 2 and not any(map(math.isnan, values)) and values != [lowest, highest]:
            return relay.clip(data, min(values), values[1])
    elif low is None and high is None:
        return relay.copy(data)
    data = data if low is None else largest(low, data)
    return data if high is None else smallest(high, data)


def _mod(inputs: Any, attr: Any, params: Any) -> Any:
    left, right = inputs[0], inputs[1]
    if attr.get("fmod", 0):
        return relay.mod(left, right)
    if not _is_float(left):
        return relay.floor_mod(left, right)
    rest = relay.mod(left, right)
    zero = relay.const(0, dtype_of(left))
    has_other_sign = relay.logical_and(
        relay.not_equal(rest, zero), relay.not_equal(relay.less(rest, zero), relay.less(right, zero))
    )
    return relay.where(has_other_sign, rest + right, rest)


def _bit_shift(convert: Converter) -> Converter:
    def shift(inputs: Any, attr: Any, params: Any) -> Any:
        value, distance, dtype = inputs[0], inputs[1], dtype_of(inputs[0])
        if not dtype.startswith("uint"):
            raise NotImplementedError(f"{dtype} is not supported, only unsigned integers")
        bits = relay.const(int(dtype[len("uint") :]), dtype)
        shifted = convert([value, relay.minimum(distance, bits - relay.const(1, dtype))], attr, params)
        return relay.where(relay.less(distance, bits), shifted, relay.zeros_like(shifted))

    return shift


def _prelu(opset: int) -> Converter:
    def prelu(inputs: Any, attr: Any, params: Any) -> Any:
        data, slope = inputs[0], inputs[1]
        sizes, slopes = infer_shape(data), infer_shape(slope)
        if opset < 7 and len(slopes) == 1:
            slopes = (*slopes, *(1,) * (len(sizes) - 2))
            slope = relay.reshape(slope, slopes)
        aligned = (1,) * (len(sizes) - len(slopes)) + tuple(slopes)
        is_channelwise = len(sizes) > 1 and aligned[1] == sizes[1] and set(aligned[:1] + aligned[2:]) <= {1}
        if is_channelwise:
            return relay.nn.prelu(data, relay.reshape(slope, (sizes[1],)), axis=1)
        return relay.where(relay.less(data, relay.const(0, dtype_of(data))), data * slope, data)

    return prelu


def elements(opset: int, table: Mapping[str, Converter]) -> dict[str, Converter]:
    """Return the converters of functions of elements for an operator set, by operator.

    Args:
        opset: The operator set.
        table: TVM's converters.
    """
    return {
        "BitShift": _bit_shift(table["BitShift"]),
        "Celu": _celu,
        "Clip": _clip,
        "Elu": _elu,
        "HardSigmoid": _hard_sigmoid,
        "LogSoftmax": _log_softmax(1, flattens=True) if opset < 13 else _log_softmax(-1, flattens=False),
        "Max": _of_all(largest),
        "Mean": _mean,
        "Min": _of_all(smallest),
        "Mish": _mish,
        "Mod": _mod,
        "PRelu": _prelu(opset),
        "Selu": _selu,
        "Shrink": _shrink,
        "Sign": _sign,
        "Softplus": _softplus,
        "Softsign": _softsign,
        "Sum": _of_all(relay.add),
        "ThresholdedRelu": _thresholded_relu,
    }
