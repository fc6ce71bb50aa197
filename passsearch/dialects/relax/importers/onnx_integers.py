"""Converters of ONNX's operators on quantised tensors.

Those that compute with scales become the form of QuantizeLinear and DequantizeLinear around an operator on floats,
which ``IntegerOperators`` turns into integers. ``ConvInteger`` and ``MatMulInteger`` have sums of int32 as results.
"""

from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

op = relax.op


def _integers(value: Any, zero: Any) -> Any:
    """Return quantised numbers minus their zero points, which 16 bits hold."""
    if zero is None:
        return value
    if isinstance(value, GenericConst) and isinstance(zero, GenericConst):
        array = value.value.numpy().astype("int16") - zero.value.numpy().astype("int16")
        is_narrow = array.min(initial=0) >= -128 and array.max(initial=0) <= 127
        return relax.const(array.astype("int8" if is_narrow else "int16"), "int8" if is_narrow else "int16")
    return op.subtract(op.astype(value, "int16"), op.astype(zero, "int16"))


def floats(bb: Any, inputs: Any, axis: int) -> Any:
    """Return the floats of three inputs: integers, scale and zero point."""
    value, scale, zero = inputs
    zero = relax.const(0, str(value.ty.dtype)) if zero is None else zero
    scale, zero = (_per_tensor(each) for each in (scale, zero))
    return bb.emit(op.dequantize(value, scale, zero, axis=axis, out_dtype="float32"))


def _per_tensor(value: Any) -> Any:
    """Return a constant vector of one number as that number."""
    if isinstance(value, GenericConst) and value.value.numpy().size == 1:
        return relax.const(value.value.numpy().reshape(()), str(value.ty.dtype))
    return value


def _quantized(bb: Any, value: Any, scale: Any, zero: Any) -> Any:
    value = bb.emit(value)
    zero = relax.const(0, "uint8") if zero is None else zero
    return op.quantize(value, _per_tensor(scale), _per_tensor(zero), axis=0, out_dtype=str(zero.ty.dtype))


def _column(zero: Any) -> Any:
    """Return zero points of output channels in the shape of weights."""
    if isinstance(zero, GenericConst):
        return relax.const(zero.value.numpy().reshape(-1, 1, 1, 1), str(zero.ty.dtype))
    return op.reshape(zero, [-1, 1, 1, 1])


def _at(inputs: Any, place: int) -> Any:
    return inputs[place] if len(inputs) > place else None


def constants(inputs: Any, params: Any) -> list[Any]:
    """Return the inputs, with constants in place of variables that stand for such."""
    return [None if each is None else onnx_frontend.get_constant(each, params) for each in all_inputs(inputs)]


def all_inputs(inputs: Any) -> list[Any]:
    """Return the inputs of a node, which TVM counts and does not iterate."""
    return [inputs[place] for place in range(len(inputs))]


class QLinearConv(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QLinearConv."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        data = floats(bb, given[:3], 1)
        weights = floats(bb, given[3:6], 0)
        bias = _at(given, 8)
        if bias is not None:
            scale = bb.emit(op.multiply(op.reshape(given[1], []), op.reshape(given[4], [-1])))
            if isinstance(given[1], GenericConst) and isinstance(given[4], GenericConst):
                product = given[1].value.numpy().reshape(()) * given[4].value.numpy().reshape(-1)
                scale = relax.const(product.astype("float32"), "float32")
            bias = bb.emit(op.multiply(op.astype(bias, "float32"), scale))
        result = onnx_frontend.Conv._impl_v11(bb, [data, weights, bias], attr, params)
        return _quantized(bb, result, given[6], given[7])


class QLinearMatMul(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QLinearMatMul."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        operands = [floats(bb, given[place : place + 3], max(given[place].ty.ndim - 1, 0)) for place in (0, 3)]
        return _quantized(bb, op.matmul(*operands), given[6], given[7])


class QGemm(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of ONNX Runtime's QGemm."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        is_transposed = [int(attr.get(name, 0)) for name in ("transA", "transB")]
        operands = [floats(bb, given[:3], 0), floats(bb, given[3:6], 0 if is_transposed[1] else 1)]
        operands = [
            bb.emit(op.permute_dims(each)) if turned else each
            for each, turned in zip(operands, is_transposed, strict=True)
        ]
        result = bb.emit(op.matmul(*operands))
        alpha = relax.const(np.float32(attr.get("alpha", 1.0)), "float32")
        if float(attr.get("alpha", 1.0)) != 1:
            result = bb.emit(op.multiply(result, alpha))
        if given[6] is not None:
            scale = bb.emit(op.multiply(op.multiply(given[1], op.reshape(given[4], [-1])), alpha))
            result = bb.emit(op.add(result, bb.emit(op.multiply(op.astype(given[6], "float32"), scale))))
        return result if _at(given, 7) is None else _quantized(bb, result, given[7], _at(given, 8))


class _Binary(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of ONNX Runtime's elementwise operators on two quantised tensors."""

    operator: Any

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        operands = [floats(bb, given[place : place + 3], 0) for place in (0, 3)]
        return _quantized(bb, cls.operator(*operands), given[6], _at(given, 7))


class QLinearAdd(_Binary):
    """Converter of QLinearAdd."""

    operator = op.add


class QLinearMul(_Binary):
    """Converter of QLinearMul."""

    operator = op.multiply


class QLinearGlobalAveragePool(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of ONNX Runtime's mean over all positions."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        data, rank = floats(bb, given[:3], 0), given[0].ty.ndim
        axes = list(range(1, rank - 1)) if int(attr.get("channels_last", 0)) else list(range(2, rank))
        return _quantized(bb, op.mean(data, axes, keepdims=True), given[3], _at(given, 4))


class QLinearSigmoid(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QLinearSigmoid."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        return _quantized(bb, op.sigmoid(floats(bb, given[:3], 0)), given[3], _at(given, 4))


class QLinearLeakyRelu(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QLinearLeakyRelu."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        data = op.nn.leakyrelu(floats(bb, given[:3], 0), float(attr.get("alpha", 0.01)))
        return _quantized(bb, data, given[3], _at(given, 4))


class QLinearConcat(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of QLinearConcat."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        parts = [floats(bb, given[place : place + 3], 0) for place in range(2, len(given), 3)]
        return _quantized(bb, op.concat(parts, int(attr["axis"])), given[0], given[1])


class ConvInteger(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of ConvInteger."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        weights_zero = _at(given, 3)
        if weights_zero is not None and weights_zero.ty.ndim == 1:
            weights_zero = _column(weights_zero)
        data, weights = _integers(given[0], _at(given, 2)), _integers(given[1], weights_zero)
        if given[0].ty.ndim != 4 or ("auto_pad" in attr and attr["auto_pad"] not in (b"NOTSET", b"VALID")):
            raise NotImplementedError("Operator ConvInteger is supported for images, with explicit padding")
        return op.nn.conv2d(
            bb.emit(data),
            bb.emit(weights),
            strides=attr.get("strides", 1),
            padding=attr.get("pads", 0),
            dilation=attr.get("dilations", 1),
            groups=attr.get("group", 1),
            data_layout="NCHW",
            kernel_layout="OIHW",
            out_dtype="int32",
        )


class MatMulInteger(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of MatMulInteger."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = constants(inputs, params)
        rows, columns = _at(given, 2), _at(given, 3)
        if rows is not None and rows.ty.ndim == 1 and int(rows.ty.shape[0]) > 1:
            rows = op.expand_dims(rows, -1)
        operands = _integers(given[0], rows), _integers(given[1], columns)
        return op.matmul(*(bb.emit(each) for each in operands), out_dtype="int32")


INTEGERS = {
    each.__name__: each
    for each in (
        ConvInteger,
        MatMulInteger,
        QGemm,
        QLinearAdd,
        QLinearConcat,
        QLinearConv,
        QLinearGlobalAveragePool,
        QLinearLeakyRelu,
        QLinearMatMul,
        QLinearMul,
        QLinearSigmoid,
    )
}
"""Converters by operator."""
