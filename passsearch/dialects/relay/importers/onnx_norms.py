"""Converters of ONNX's normalisations that TVM's importer of Relay lacks or gets wrong.

* ``BatchNormalization`` in training mode uses the statistics of the batch; TVM takes the running ones. Its running
  outputs are computed as well, and with scales, means and variances that come at run time.
* ``GroupNormalization`` is missing.
* ``InstanceNormalization`` in float16 overflows at values of some hundreds.
* ``MeanVarianceNormalization`` subtracts squares, of which little is left where the mean is large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm import relay
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.relay.importers.local_inference import dtype_of

Converter: TypeAlias = Callable[[Any, Any, Any], Any]


def batch_norm(convert: Converter, opset: int) -> Converter:
    """Return the converter of batch norm for an operator set.

    Args:
        convert: TVM's converter.
        opset: The operator set; the training mode is an attribute since 14.
    """

    def normalize(inputs: Any, attr: Any, params: Any) -> Any:
        if not attr.get("spatial", 1):
            raise NotImplementedError("the attribute spatial is not supported with the value 0")
        data, scale, shift, mean, var = (inputs[number] for number in range(5))
        epsilon = attr.get("epsilon", 1e-5)
        if opset >= 14 and attr.get("training_mode", 0):
            return _trained(data, (scale, shift, mean, var), epsilon, attr.get("momentum", 0.9))
        if isinstance(var, relay.Constant) and _is_uniform((data, scale, mean)):
            return convert(inputs, attr, params).astuple().fields[0]
        return _normalized(data, scale, shift, mean, var, epsilon)

    return normalize


def _is_uniform(values: Any) -> bool:
    return len({dtype_of(value) for value in values}) == 1


def _trained(data: Any, factors: Any, epsilon: float, momentum: float) -> Any:
    """Return the data normalised by their own statistics, and the running statistics after them."""
    scale, shift, mean, var = factors
    axes = [axis for axis in range(len(infer_shape(data))) if axis != 1]
    own_mean = relay.mean(data, axis=axes)
    gap = data - _by_channel(own_mean, data)
    own_var = relay.mean(gap * gap, axis=axes)
    kept, added = relay.const(momentum, dtype_of(mean)), relay.const(1 - momentum, dtype_of(mean))
    running = [old * kept + relay.cast(new, dtype_of(old)) * added for old, new in ((mean, own_mean), (var, own_var))]
    result = _normalized(data, scale, shift, own_mean, own_var, epsilon)
    return relay.expr.TupleWrapper(relay.Tuple([result, *running]), 3)


def _normalized(data: Any, scale: Any, shift: Any, mean: Any, var: Any, epsilon: float) -> Any:
    root = relay.sqrt(var + relay.const(epsilon, dtype_of(var)))
    mean, root, scale, shift = (
        _by_channel(relay.cast(each, dtype_of(data)), data) for each in (mean, root, scale, shift)
    )
    return (data - mean) / root * scale + shift


def _by_channel(value: Any, data: Any) -> Any:
    """Return a vector in the shape that is broadcast along the channels of the data."""
    return relay.reshape(value, (-1, *(1,) * (len(infer_shape(data)) - 2)))


def in_float32(convert: Converter) -> Converter:
    """Return a converter that computes in float32 what is float16, whose squares overflow from 256 on."""

    def widened(inputs: Any, attr: Any, params: Any) -> Any:
        if dtype_of(inputs[0]) != "float16":
            return convert(inputs, attr, params)
        wide = [relay.cast(each, "float32") for each in inputs]
        return relay.cast(convert(wide, attr, params), "float16")

    return widened


def mean_variance_norm(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert a division by the standard deviation; ONNX adds to it what keeps constant data from a division by 0."""
    axes = list(attr.get("axes", (0, 2, 3)))
    gap = inputs[0] - relay.mean(inputs[0], axis=axes, keepdims=True)
    deviation = relay.sqrt(relay.mean(gap * gap, axis=axes, keepdims=True))
    return gap / (deviation + relay.const(1e-9, dtype_of(inputs[0])))


def per_channel_group_norm(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert the form of group norm since operator set 21, which has one scale and one shift for each channel."""
    data, scale, shift = inputs
    return relay.nn.group_norm(
        data, scale, shift, num_groups=int(attr["num_groups"]), axis=1, epsilon=float(attr.get("epsilon", 1e-5))
    )


def per_group_group_norm(inputs: Any, attr: Any, params: Any) -> Any:
    """Convert the form of operator sets 18 to 20, which has one scale and one shift for each group."""
    data, *factors = inputs
    channels = infer_shape(data)[1] // int(attr["num_groups"])
    return per_channel_group_norm([data, *(relay.repeat(each, channels, axis=0) for each in factors)], attr, params)
