"""Converters of ONNX's normalisations and of Dropout that TVM's importer of Relax gets wrong.

* ``LayerNormalization`` has three outputs; TVM makes zeros of the mean and of the reciprocal deviation. It reads a
  scale that is smaller than the normalised axes as if there were fewer of them, and has no code for float64.
* ``RMSNormalization`` of several axes likewise.
* ``BatchNormalization`` in training mode weighs its statistics by the momentum the other way round, and divides the
  variance by one less than the number of elements.
* Other norms in float16 overflow at values of some hundreds; here they are computed in float32.
* ``LpNormalization`` is missing.
* ``MeanVarianceNormalization`` subtracts squares, of which little is left where the mean is large.
* ``Dropout`` outside of training keeps everything; its mask is boolean. In training it is refused.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from passsearch.dialects.relax.importers.onnx_elements import Wrapped, dtype_of, number

op = relax.op


class LayerNormalization(onnx_frontend.LayerNormalization):  # type: ignore[misc]
    """Converter of LayerNormalization with its statistics, and for scales of any shape."""

    @classmethod
    def _impl_v17(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        data, scale, bias = inputs[0], inputs[1], inputs[2]
        axes = _axes(data, attr.get("axis", -1))
        is_plain = [int(size) for size in scale.ty.shape] == [int(data.ty.shape[axis]) for axis in axes]
        if attr["tvm_custom"]["num_outputs"] == 1 and is_plain and dtype_of(data) == "float32":
            bias = bias if bias is not None else op.zeros_like(scale)
            return op.nn.layer_norm(data, scale, bias, axes, attr.get("epsilon", 1e-5))
        wide = _stash(bb, data, attr)
        mean = bb.emit(op.mean(wide, axes, keepdims=True))
        centred = bb.emit(op.subtract(wide, mean))
        inverse = _inverse(bb, centred, axes, attr)
        return relax.Tuple([_scaled(op.multiply(centred, inverse), data, scale, bias), mean, inverse])


class RMSNormalization(onnx_frontend.RMSNormalization):  # type: ignore[misc]
    """Converter of RMSNormalization of several axes, and for scales of any shape."""

    @classmethod
    def _impl_v23(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        axes = _axes(inputs[0], attr.get("axis", -1))
        if len(axes) == 1 and len(inputs[1].ty.shape) == 1:
            return super()._impl_v23(bb, inputs, attr, params)
        wide = _stash(bb, inputs[0], attr)
        return _scaled(op.multiply(wide, _inverse(bb, wide, axes, attr)), inputs[0], inputs[1], None)


def _axes(data: Any, first: int) -> list[int]:
    rank = len(data.ty.shape)
    return list(range(first % rank, rank))


def _stash(bb: Any, data: Any, attr: Mapping[str, Any]) -> Any:
    """Return the data in the type in which ONNX computes statistics."""
    is_narrow = attr.get("stash_type", 1) == 1 and dtype_of(data) in ("float16", "bfloat16")
    return bb.emit(op.astype(data, "float32")) if is_narrow else data


def _inverse(bb: Any, centred: Any, axes: Sequence[int], attr: Mapping[str, Any]) -> Any:
    """Return the reciprocal of the root of the mean square."""
    square = op.mean(op.multiply(centred, centred), list(axes), keepdims=True)
    shifted = op.add(square, number(attr.get("epsilon", 1e-5), centred))
    return bb.emit(op.divide(number(1, centred), op.sqrt(shifted)))


def _scaled(normal: Any, data: Any, scale: Any, bias: Any) -> Any:
    scaled = op.multiply(op.astype(normal, dtype_of(data)), scale)
    return scaled if bias is None else op.add(scaled, bias)


class BatchNormalization(onnx_frontend.BatchNormalization):  # type: ignore[misc]
    """Converter of BatchNormalization that computes the statistics of the batch as ONNX defines them."""

    @classmethod
    def _impl_v15(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if not attr.get("training_mode", 0):
            return super()._impl_v15(bb, inputs, attr, params)
        data, scale, bias, *running = inputs[:5]
        rank = len(data.ty.shape)
        others = [axis for axis in range(rank) if axis != 1]
        wide = bb.emit(op.astype(data, "float32")) if dtype_of(data) == "float16" else data
        mean = bb.emit(op.mean(wide, others, keepdims=True))
        centred = bb.emit(op.subtract(wide, mean))
        variance = bb.emit(op.mean(op.multiply(centred, centred), others, keepdims=True))
        root = op.sqrt(op.add(variance, number(attr.get("epsilon", 1e-5), wide)))
        form = [-1 if axis == 1 else 1 for axis in range(rank)]
        parts = [op.reshape(bb.emit(op.astype(part, dtype_of(wide))), form) for part in (scale, bias)]
        normal = op.add(op.multiply(op.divide(centred, root), parts[0]), parts[1])
        weight = attr.get("momentum", 0.9)
        kept = [
            _weighed(old, op.squeeze(new, others), weight) for old, new in zip(running, (mean, variance), strict=True)
        ]
        return relax.Tuple([op.astype(normal, dtype_of(data)), *kept])


class LpNormalization(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of LpNormalization; what has the norm 0 stays 0, as in ONNX Runtime."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, axes = inputs[0], [attr.get("axis", -1)]
        if attr.get("p", 2) == 1:
            norm = op.sum(op.abs(x), axes, keepdims=True)
        else:
            norm = op.sqrt(op.sum(op.multiply(x, x), axes, keepdims=True))
        norm = bb.emit(norm)
        return op.where(op.equal(norm, number(0, x)), number(0, x), op.divide(x, norm))


class MeanVarianceNormalization(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of MeanVarianceNormalization; ONNX adds to the deviation what avoids a division by 0."""

    @classmethod
    def _impl_v9(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        data, axes = inputs[0], list(attr.get("axes", (0, 2, 3)))
        centred = bb.emit(op.subtract(data, op.mean(data, axes, keepdims=True)))
        deviation = op.sqrt(op.mean(op.multiply(centred, centred), axes, keepdims=True))
        return op.divide(centred, op.add(deviation, number(1e-9, data)))


def _weighed(old: Any, new: Any, weight: float) -> Any:
    return op.add(
        op.multiply(old, number(weight, old)), op.multiply(op.astype(new, dtype_of(old)), number(1 - weight, old))
    )


class Dropout(onnx_frontend.Dropout):  # type: ignore[misc]
    """Converter of Dropout outside of training."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._kept(inputs[0], attr)

    @classmethod
    def _impl_v12(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        _, training = inputs[1], inputs[2]
        mode = training if training is None else onnx_frontend.get_constant(training, params)
        if mode is not None and not (isinstance(mode, GenericConst) and not mode.value.numpy().item()):
            raise NotImplementedError("training is not supported; export the network for inference")
        return cls._kept(inputs[0], attr)

    @classmethod
    def _kept(cls, data: Any, attr: Mapping[str, Any]) -> Any:
        attr.get("ratio")  # without a meaning outside of training
        if attr["tvm_custom"]["num_outputs"] == 1:
            return data
        shape = [int(size) for size in data.ty.shape]
        if math.prod(shape) < 1 << 20:
            return relax.Tuple([data, relax.const(np.ones(shape, bool))])
        return relax.Tuple([data, op.full(shape, relax.const(True), dtype="bool")])


def _in_float32(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    if dtype_of(inputs[0]) != "float16":
        return convert(bb, inputs, attr, params)
    wide = [bb.emit(op.astype(value, "float32")) for value in inputs]
    return op.astype(bb.normalize(convert(bb, wide, attr, params)), "float16")


WIDENED = ("GroupNormalization", "InstanceNormalization")
"""Operators whose squares overflow in float16, and which ONNX Runtime computes in float32."""

NORMS: Mapping[str, Any] = {
    **{kind: Wrapped(getattr(onnx_frontend, kind), _in_float32) for kind in WIDENED},
    "MeanVarianceNormalization": Wrapped(MeanVarianceNormalization, _in_float32),
    "BatchNormalization": BatchNormalization,
    "Dropout": Dropout,
    "LayerNormalization": LayerNormalization,
    "LpNormalization": LpNormalization,
    "RMSNormalization": RMSNormalization,
}
"""The converters by operator."""
