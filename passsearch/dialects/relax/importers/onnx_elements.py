"""Converters of ONNX's elementwise operators that TVM's importer of Relax gets wrong, or refuses for some types.

* ``Elu``, ``Selu`` and ``ThresholdedRelu`` have constants of float32 whatever the type, and the last one makes NaN of
  minus infinity.
* ``PRelu`` before operator set 7 has a slope for each channel; TVM takes the last axis.
* ``Pow`` of integers has no code; here it is computed in float64 and cut, as ONNX Runtime does. So is an exponent of
  another type than its base, which TVM refuses.
* ``Mod`` of floats without ``fmod`` has the sign of the divisor; TVM's floor loses signs of zeros and infinities.
* ``BitShift`` by the width of the type or more, or by less than 0, is what the processor makes of it.
* ``Max`` and ``Min`` become reductions of a joined tensor, which lose NaN.
* ``IsInf`` for one sign only.
* ``ReduceMax`` and ``ReduceMin`` of booleans have no code; here they are those of numbers. Of no elements they are
  refused, because TVM's loops do not write the result.
* Before operator set 7, ``broadcast`` and ``axis`` say how the second operand is spread; TVM reads neither.
* ``Celu`` and ``Swish`` are missing.
* ``Softplus`` and ``Mish`` lose all digits of small results, and ``ReduceLogSumExp`` an infinity.
* ``OneHot`` has the type of its values, which may come at run time; TVM makes float64 of all floats.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import helper
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

op = relax.op


def dtype_of(value: Any) -> str:
    """Return the name of the type of a value's elements."""
    return str(value.ty.dtype)


def number(value: float, like: Any) -> Any:
    """Return a constant of the type of another value."""
    return relax.const(value, dtype_of(like))


class Elu(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Elu for all floats."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        below = op.multiply(number(attr.get("alpha", 1.0), x), op.subtract(op.exp(x), number(1, x)))
        return op.where(op.less(x, number(0, x)), below, x)


class Selu(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Selu for all floats."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, alpha = inputs[0], attr.get("alpha", 1.67326319217681884765625)
        below = op.multiply(number(alpha, x), op.subtract(op.exp(x), number(1, x)))
        scaled = op.where(op.less(x, number(0, x)), below, x)
        return op.multiply(number(attr.get("gamma", 1.05070102214813232421875), x), scaled)


class ThresholdedRelu(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of ThresholdedRelu for all floats and infinities."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        return op.where(op.less_equal(x, number(attr.get("alpha", 1.0), x)), number(0, x), x)


class Celu(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Celu."""

    @classmethod
    def _impl_v12(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, alpha = inputs[0], number(attr.get("alpha", 1.0), inputs[0])
        below = op.multiply(alpha, op.subtract(op.exp(op.divide(x, alpha)), number(1, x)))
        return op.where(op.less(x, number(0, x)), below, x)


class Swish(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Swish."""

    @classmethod
    def _impl_v24(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        return op.multiply(x, op.sigmoid(op.multiply(number(attr.get("alpha", 1.0), x), x)))


class Softplus(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Softplus that keeps the digits of small results."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        small = bb.emit(op.exp(op.negative(op.abs(x))))
        more = bb.emit(op.add(number(1, x), small))
        # The logarithm of the rounded sum, times what the rounding changed (Kahan).
        scaled = op.divide(op.multiply(op.log(more), small), op.subtract(more, number(1, x)))
        logarithm = op.where(op.equal(more, number(1, x)), small, scaled)
        return op.add(op.maximum(x, number(0, x)), logarithm)


class Mish(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of Mish, x * tanh(log(1 + exp(x))), by one exponential."""

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        # Beyond these values the factor is 1, and its parts would overflow.
        above = 5 if dtype_of(x) == "float16" else 20
        power = bb.emit(op.exp(op.minimum(x, number(above, x))))
        part = bb.emit(op.multiply(power, op.add(power, number(2, x))))
        return op.multiply(x, op.divide(part, op.add(part, number(2, x))))


class PRelu(onnx_frontend.PRelu):  # type: ignore[misc]
    """Converter of PRelu with a slope for each channel before operator set 7."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        data, slope = inputs[0], inputs[1]
        if len(data.ty.shape) < 2 or len(slope.ty.shape) != 1 or int(slope.ty.shape[0]) == 1:
            return super()._impl_v1(bb, [data, slope], attr, params)
        return op.nn.prelu(data, slope, 1)

    @classmethod
    def _impl_v7(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return super()._impl_v1(bb, inputs, attr, params)


class Pow(onnx_frontend.Pow):  # type: ignore[misc]
    """Converter of Pow for all pairs of types."""

    @classmethod
    def _impl_v7(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        base, exponent = inputs[0], inputs[1]
        if "int" in dtype_of(base):
            wide = [op.astype(value, "float64") for value in (base, exponent)]
            return op.astype(op.power(*wide), dtype_of(base))
        if dtype_of(base) != dtype_of(exponent):
            exponent = op.astype(exponent, dtype_of(base))
        return super()._impl_v7(bb, [base, bb.normalize(exponent)], attr, params)


class Mod(onnx_frontend.Mod):  # type: ignore[misc]
    """Converter of Mod of floats with the sign of the divisor."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("fmod", 0) or "float" not in dtype_of(inputs[0]):
            return super()._impl_v10(bb, inputs, attr, params)
        x, divisor = inputs[0], inputs[1]
        rest, zero = bb.emit(op.mod(x, divisor)), number(0, x)
        # TVM has no sign of a zero, but the reciprocal of one has.
        is_other_sign = op.logical_xor(op.less(rest, zero), op.less(divisor, zero))
        moved = op.where(is_other_sign, op.add(rest, divisor), rest)
        signed_zero = op.where(op.less(divisor, zero), number(-0.0, x), zero)
        return op.where(op.equal(rest, zero), signed_zero, moved)


class IsInf(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of IsInf of both signs or one."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x = inputs[0]
        above, below = (bool(attr.get(f"detect_{sign}", 1)) for sign in ("positive", "negative"))
        found = op.isinf(x)
        if above and below:
            return found
        if not above and not below:
            return op.logical_and(found, relax.const(False))
        has_sign = op.greater(x, number(0, x)) if above else op.less(x, number(0, x))
        return op.logical_and(found, has_sign)


class OneHot(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of OneHot to a comparison with a range."""

    @classmethod
    def _impl_v9(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        indices, depth, values = inputs[0], onnx_frontend.get_constant(inputs[1], params), inputs[2]
        if not isinstance(depth, GenericConst):
            raise NotImplementedError("a depth that is known at run time only is not supported; make it a constant")
        count, rank = int(depth.value.numpy().item()), len(indices.ty.shape)
        axis = attr.get("axis", -1) % (rank + 1)
        places = op.astype(indices, "int64")
        places = op.where(op.less(places, relax.const(0, "int64")), op.add(places, relax.const(count, "int64")), places)
        shape = [count if place == axis else 1 for place in range(rank + 1)]
        numbers = op.reshape(op.arange(0, count, 1, dtype="int64"), shape)
        is_on = op.equal(op.expand_dims(bb.emit(places), axis), numbers)
        off, on = (
            op.squeeze(op.strided_slice(values, axes=[0], begin=[place], end=[place + 1]), [0]) for place in (0, 1)
        )
        return op.where(is_on, on, off)


class Wrapped:
    """A converter with a function around it, for all operator sets."""

    def __init__(self, converter: Any, around: Callable[..., Any]) -> None:
        self._converter, self._around = converter, around

    def get_converter(self, opset: int) -> Callable[..., Any]:
        """Return the function that converts a node, as TVM's class method of this name does."""
        convert = self._converter.get_converter(opset)

        def call_around(bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
            return self._around(convert, bb, inputs, attr, params)

        return call_around


def _extreme(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    if dtype_of(inputs[0]) != "bool":
        return convert(bb, inputs, attr, params)
    inputs[0] = bb.emit(op.astype(inputs[0], "int8"))
    return op.astype(bb.normalize(convert(bb, inputs, attr, params)), "bool")


def _is_empty(value: Any) -> bool:
    return any(isinstance(size, tirx.IntImm) and int(size) == 0 for size in value.ty.shape)


class ReduceLogSumExp(onnx_frontend.ReduceLogSumExp):  # type: ignore[misc]
    """Converter of ReduceLogSumExp; with an infinity among the numbers, the difference from the largest is none."""

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        x, axes = inputs[0], attr.get("axes")
        if _is_empty(x):  # TVM's largest of no numbers is what the memory holds
            return op.log(op.sum(op.exp(x), axes, keepdims=bool(attr.get("keepdims", 1))))
        largest = bb.emit(op.max(x, axes, keepdims=True))
        shift = bb.emit(op.where(op.isinf(largest), number(0, x), largest))
        total = op.sum(op.exp(op.subtract(x, shift)), axes, keepdims=True)
        result = bb.emit(op.add(op.log(total), shift))
        return result if attr.get("keepdims", 1) else op.squeeze(result, axes)

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        axes = None if len(inputs) < 2 or inputs[1] is None else onnx_frontend.get_constant(inputs[1], params)
        if axes is not None and not isinstance(axes, GenericConst):
            raise NotImplementedError("axes that are known at run time only are not supported; make them a constant")
        numbers = [] if axes is None else axes.value.numpy().tolist()
        if not numbers and attr.get("noop_with_empty_axes", 0):
            return inputs[0]
        return cls._impl_v13(bb, inputs, {"axes": numbers or None, "keepdims": attr.get("keepdims", 1)}, params)


def _eye(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    """Convert EyeLike to the type that it names, which TVM takes only if the data has it as well."""
    if attr.get("dtype"):
        inputs[0] = bb.emit(op.astype(inputs[0], str(helper.tensor_dtype_to_np_dtype(attr["dtype"]))))
    return convert(bb, inputs, attr, params)


def _triangle(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    if not _is_empty(inputs[0]):
        return convert(bb, inputs, attr, params)
    _ = attr.get("upper"), inputs[1]  # without a meaning
    return inputs[0]


def _filled(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    if _is_empty(inputs[0]):
        raise NotImplementedError("a tensor without elements is not supported")
    return convert(bb, inputs, attr, params)


def _shift(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    """Convert a shift of bits, all of which leave for a distance below 0 or of at least the width of the type."""
    data, distance = inputs[0], inputs[1]
    bits = np.iinfo(dtype_of(data)).bits
    is_positive, is_short = op.greater_equal(distance, number(0, distance)), op.less(distance, number(bits, distance))
    is_within = bb.emit(op.logical_and(is_positive, is_short))
    keeps_sign = attr["direction"] == b"RIGHT" and dtype_of(data).startswith("int")
    inputs[1] = bb.emit(op.where(is_within, distance, number(bits - 1 if keeps_sign else 0, distance)))
    shifted = convert(bb, inputs, attr, params)
    return shifted if keeps_sign else op.where(is_within, shifted, number(0, data))


def _by_pairs(choose: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """Return a function that converts by an operator on two values, unless all of them are constants."""

    def around(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if all(isinstance(value, GenericConst) for value in inputs):
            return convert(bb, inputs, attr, params)
        return functools.reduce(lambda left, right: bb.normalize(choose(left, right)), inputs)

    return around


def _spread(convert: Callable[..., Any], bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
    """Convert a node whose second operand begins at an axis of the first; without one it ends at the last axis."""
    if attr.get("broadcast", 0) and attr.get("axis") is not None:
        first, second = inputs[0], inputs[1]
        rank = len(first.ty.shape)
        shape = [int(size) for size in second.ty.shape]
        behind = rank - attr["axis"] % rank - len(shape)
        inputs[1] = bb.emit(op.reshape(second, [*shape, *[1] * behind]))
    return convert(bb, inputs, attr, params)


SPREAD = ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Less", "Greater", "Equal", "Gemm")
"""Operators that had ``broadcast`` before operator set 7, besides Pow."""

ELEMENTS: Mapping[str, Any] = {
    **{kind: Wrapped(getattr(onnx_frontend, kind), _spread) for kind in SPREAD},
    "BitShift": Wrapped(onnx_frontend.BitShift, _shift),
    "Celu": Celu,
    "Elu": Elu,
    "EyeLike": Wrapped(onnx_frontend.EyeLike, _eye),
    "IsInf": IsInf,
    "Max": Wrapped(onnx_frontend.Max, _by_pairs(op.maximum)),
    "Min": Wrapped(onnx_frontend.Min, _by_pairs(op.minimum)),
    "Mish": Mish,
    "Mod": Mod,
    "OneHot": OneHot,
    "Pow": Wrapped(Pow, _spread),
    "PRelu": PRelu,
    "ReduceLogSumExp": ReduceLogSumExp,
    "ReduceMax": Wrapped(Wrapped(onnx_frontend.ReduceMax, _extreme), _filled),
    "ReduceMin": Wrapped(Wrapped(onnx_frontend.ReduceMin, _extreme), _filled),
    "Selu": Selu,
    "Softplus": Softplus,
    "Swish": Swish,
    "Trilu": Wrapped(onnx_frontend.Trilu, _triangle),
    "ThresholdedRelu": ThresholdedRelu,
}
"""The converters by operator."""
