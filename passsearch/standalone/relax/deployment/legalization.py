"""Loops of operators that TVM's ``LegalizeOps`` gets wrong, and functions that take the place of TVM's.

* A batch norm of 16 bits becomes one of 32, because TVM adds its epsilon in 32 bits. Here it is computed in 32 bits and
  rounded to the type that its call has.
* TVM has no layer norm of 64 bits.
* Products, convolutions, sums and what is computed from sums add numbers of 16 bits in 16 bits. On a CPU, they are
  added in 32 bits here, as by ONNX Runtime and PyTorch; a GPU's kernels choose that themselves.
* Constant weights of 8 bits are transposed for a GPU, so that the terms of a sum are neighbours in memory.
* The largest of numbers that are all minus infinity becomes the lowest finite number, from which TVM starts, and the
  smallest likewise. Here both start from infinity. Their place is -1 then; here it is 0.
* A softmax divides each exponential by the sum. Here it multiplies by the reciprocal on a CPU.
* A logarithm of softmax computes each exponential inside its sum, without vectors. Here it stores them on a CPU.
* ``maximum``, ``minimum``, ``clip`` and ``relu`` lose NaN where it is a comparison's first operand; NaN's sign is 0.
  Here all of them keep NaN, as numpy, PyTorch and ONNX Runtime do. The largest and the smallest number of an axis or a
  window still lose it: a reduction that keeps it is none that TVM can split into vectors, and takes 3.5 times as long.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, te, tirx, topi
from tvm.relax.utils import gen_call_tir_inputs

ATTRIBUTE, LEVEL = "FLegalize", 11
"""Attribute of operators that ``LegalizeOps`` reads; TVM's own values have level 10."""

PLACES = "passsearch.places"
"""Attribute of a function that computes places of extremes: the name of its operator (``cpu_schedules/places.py``)."""

NARROW = ("float16", "bfloat16")
POOLS = ("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d")
MATMUL = "relax.matmul"
PRODUCTS = (MATMUL, *(f"relax.nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose")))
"""Operators with a type of their own for sums."""

SUMS = (
    *(f"relax.{name}" for name in ("mean", "prod", "std", "sum", "variance")),
    *(f"relax.nn.{name}" for name in ("group_norm", "instance_norm", "rms_norm")),
    *(f"relax.nn.{kind}avg_pool{rank}d" for rank in (1, 2, 3) for kind in ("", "adaptive_")),
)
"""Other operators that add numbers."""


class _Builder:
    """A block builder for TVM's function of an operator, which changes what is computed or the loops of it."""

    def __init__(self, builder: Any, compute: Callable[..., Any], loops: Callable[[Any], Any]) -> None:
        self._builder, self._compute, self._loops = builder, compute, loops

    def call_te(self, compute: Any, *arguments: Any, primfunc_name_hint: str | None = None, **named: Any) -> Any:
        """Return the call of a new function, as ``BlockBuilder.call_te`` does."""
        function, operands, types = gen_call_tir_inputs(self._compute(compute), *arguments, **named)
        name = self._builder.add_func(self._loops(function), primfunc_name_hint or compute.__name__)
        return relax.call_tir(name, operands, types)


def _replace(
    name: str,
    *,
    compute: Callable[[Any, str], Any] = lambda compute, _: compute,
    loops: Callable[[Any], Any] = lambda function: function,
    dtypes: tuple[str, ...] = ("float16", "float32", "float64"),
    applies: Callable[[], bool] = lambda: True,
) -> None:
    """Register an operator's function that changes what TVM's computes, or its loops, for some types and targets."""
    original = tvm.ir.Op.get(name).get_attr(ATTRIBUTE)
    assert original is not None, f"{name} is not lowered by LegalizeOps"

    def legalize(builder: Any, call: Any) -> Any:
        dtype = str(call.args[0].ty.dtype)
        if dtype not in dtypes or not applies():
            return original(builder, call)
        return original(_Builder(builder, lambda function: compute(function, dtype), loops), call)

    tvm.ir.register_op_attr(name, ATTRIBUTE, legalize, level=LEVEL)


class _OtherAttributes:
    """The attributes of a call, some with another value."""

    def __init__(self, attributes: Any, **others: Any) -> None:
        self._attributes = attributes
        self.__dict__.update(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attributes, name)


def _is_cpu() -> bool:
    return _is_for("cpu")


def _is_for(key: str) -> bool:
    target = tvm.target.Target.current()
    return target is not None and key in target.keys


def _replace_product(name: str) -> None:
    """Register an operator's function for products of 16 bits on a CPU, and of 8 bits with weights on a GPU."""
    original = tvm.ir.Op.get(name).get_attr(ATTRIBUTE)
    assert original is not None, f"{name} is not lowered by LegalizeOps"

    def legalize(builder: Any, call: Any) -> Any:
        dtype = str(call.ty.dtype)
        if name == MATMUL and _has_weights_of_8_bits(call) and _is_for("gpu"):
            return _with_transposed_weights(builder, call)
        if dtype not in NARROW or not _is_cpu():
            return original(builder, call)
        attributes = _OtherAttributes(call.attrs, out_dtype="float32")
        # TVM's function of the product infers its shape by the builder, and only TVM's own will do.
        shape = SimpleNamespace(get_attr=lambda key: lambda product, _: call.op.get_attr(key)(product, builder))
        wide = SimpleNamespace(op=shape, args=call.args, ty=call.ty, attrs=attributes)
        rounded = _Builder(builder, lambda function: _rounded(function, dtype), lambda function: function)
        result = original(rounded, wide)
        # TVM returns the call of a convolution whose layouts it has no loops for.
        return call if result is wide else result

    tvm.ir.register_op_attr(name, ATTRIBUTE, legalize, level=LEVEL)


def _has_weights_of_8_bits(call: Any) -> bool:
    """Return True for a product of 8 bits with one constant matrix, and with sums of 32 bits."""
    weights = call.args[1]
    is_matrix = isinstance(weights, tvm.ir.GenericConst) and len(weights.ty.shape) == 2
    is_narrow = all(str(each.ty.dtype) in ("int8", "uint8") for each in call.args)
    return is_matrix and is_narrow and str(call.ty.dtype) == "int32"


def _with_transposed_weights(builder: Any, call: Any) -> Any:
    """Return the call of a product whose constant weights have the terms of a sum as neighbours."""

    def matmul(data: Any, columns: Any) -> Any:
        step = te.reduce_axis((0, data.shape[-1]), "k")

        def total(*index: Any) -> Any:
            *rows, column = index
            return te.sum(data(*rows, step).astype("int32") * columns(column, step).astype("int32"), step)

        return te.compute((*data.shape[:-1], columns.shape[0]), total, name="matmul")

    data, weights = call.args
    transposed = relax.const(np.ascontiguousarray(weights.value.numpy().T), str(weights.ty.dtype))
    return builder.call_te(matmul, data, transposed, primfunc_name_hint="matmul")


def _rounded(compute: Any, dtype: str) -> Any:
    """Return a computation whose result has another type."""

    @functools.wraps(compute)
    def rounded(*operands: Any, **named: Any) -> Any:
        return topi.cast(compute(*operands, **named), dtype)

    return rounded


def _in_float32(compute: Any, dtype: str) -> Any:
    """Return a computation in 32 bits whose operands and results have another type."""

    @functools.wraps(compute)
    def widened(*operands: Any, **named: Any) -> Any:
        wide = [_cast(operand, "float32") for operand in operands]
        results = compute(*wide, **{name: _cast(value, "float32") for name, value in named.items()})
        return _cast(results, dtype) if isinstance(results, te.Tensor) else [_cast(each, dtype) for each in results]

    return widened


def _wide_layer_norm(compute: Any, _dtype: str) -> Any:
    """Return a layer norm of any type of float; TVM's is for 16 and 32 bits."""

    @functools.wraps(compute)
    def norm(data: Any, scale: Any, shift: Any, axis: Any, epsilon: float) -> Any:
        axes = [int(each) % len(data.shape) for each in axis]
        count = functools.reduce(operator.mul, [data.shape[each] for each in axes]).astype(data.dtype)
        centred = data - topi.sum(data, axes, keepdims=True) / count
        variance = topi.sum(centred * centred, axes, keepdims=True) / count
        deviation = topi.sqrt(variance + tirx.const(float(epsilon), data.dtype))
        return centred / deviation * scale + shift

    return norm


def _softmax(_compute: Any, dtype: str) -> Any:
    """Return a softmax that multiplies by the reciprocal of each sum, which is 1 or more; divisions take longer."""

    def softmax(data: Any, axis: int) -> Any:
        exponentials = topi.exp(data - topi.max(data, axis, keepdims=True))
        return exponentials * (tirx.const(1.0, "float32") / topi.sum(exponentials, axis, keepdims=True))

    return _in_float32(softmax, dtype) if dtype in NARROW else softmax


def _log_softmax(_compute: Any, dtype: str) -> Any:
    """Return a logarithm of softmax that stores its exponentials, so that schedules compute them in vectors."""

    def log_softmax(data: Any, axis: int) -> Any:
        centred = data - topi.max(data, axis, keepdims=True)
        return centred - topi.log(topi.sum(topi.exp(centred), axis, keepdims=True))

    return _in_float32(log_softmax, dtype) if dtype in NARROW else log_softmax


def _cast(value: Any, dtype: str) -> Any:
    return topi.cast(value, dtype) if isinstance(value, te.Tensor) else value


def _from_infinity(function: Any) -> Any:
    """Return loops that begin with infinity where they began with the lowest or the highest finite number."""

    def replace(number: Any) -> Any:
        dtype = str(number.ty)
        for limit, value in ((tvm.tirx.min_value(dtype), -math.inf), (tvm.tirx.max_value(dtype), math.inf)):
            if isinstance(limit, tirx.FloatImm) and number.value == limit.value:
                return tirx.const(value, dtype)
        return number

    return tvm_ffi.structural_map(function, (tirx.FloatImm, replace))


def _places(name: str, function: Any) -> Any:
    """Return the loops of places, which begin with infinity, on a CPU with the name of their operator."""
    loops = _from_infinity(function)
    return loops.with_attr(PLACES, name) if _is_cpu() else loops


def _keeping_nan(function: Any) -> Any:
    """Return loops in which every largest and smallest number is NaN if one of the two numbers is."""
    for kind in (tirx.Max, tirx.Min):
        function = tvm_ffi.structural_map(function, (kind, _keep_nan))
    return function


def _keep_nan(extreme: Any) -> Any:
    kind, first, second = type(extreme), extreme.a, extreme.b
    if "float" not in str(extreme.ty) or isinstance(first, tirx.FloatImm):
        return extreme
    # TVM compiles ``max(a, b)`` as ``a > b ? a : b``, so that NaN stays NaN as the second operand.
    if isinstance(second, tirx.FloatImm):
        return kind(second, first)
    is_first = first > second if kind is tirx.Max else first < second
    return tirx.Select(tirx.any(is_first, tirx.isnan(first)), first, second)


def _sign_of_nan(compute: Any, _dtype: str) -> Any:
    """Return a computation whose results are NaN where its only operand is."""

    @functools.wraps(compute)
    def guarded(data: Any) -> Any:
        result = compute(data)
        return te.compute(data.shape, lambda *i: tirx.Select(tirx.isnan(data(*i)), data(*i), result(*i)))

    return guarded


def _first_place(compute: Any, _dtype: str) -> Any:
    """Return a computation of places that gives the first one where no number is beyond the infinity it starts from."""

    @functools.wraps(compute)
    def nonnegative_places(*operands: Any, **named: Any) -> Any:
        places = compute(*operands, **named)
        return topi.maximum(places, tirx.const(0, places.dtype))

    return nonnegative_places


@functools.cache
def replace_functions() -> None:
    """Let ``LegalizeOps``, in TVM's own pipelines too, take the functions of this file from now on."""
    _replace("relax.nn.batch_norm", compute=_in_float32, dtypes=NARROW)
    _replace("relax.nn.layer_norm", compute=_wide_layer_norm, dtypes=("float64",))
    for name in SUMS:
        _replace(name, compute=_in_float32, dtypes=NARROW, applies=_is_cpu)
    _replace("relax.nn.softmax", compute=_softmax, dtypes=(*NARROW, "float32"), applies=_is_cpu)
    _replace("relax.nn.log_softmax", compute=_log_softmax, dtypes=(*NARROW, "float32"), applies=_is_cpu)
    for name in PRODUCTS:
        _replace_product(name)
    _replace("relax.sign", compute=_sign_of_nan)
    for name in ("relax.nn.relu", "relax.clip", "relax.maximum", "relax.minimum"):
        _replace(name, loops=_keeping_nan)
    for name in ("relax.max", "relax.min", *POOLS):
        _replace(name, loops=_from_infinity)
    for name in ("argmax", "argmin"):
        _replace(f"relax.{name}", compute=_first_place, loops=functools.partial(_places, name))
