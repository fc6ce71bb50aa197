"""Integer networks: products of quantised tensors as integer products, and 8 bits in memory between operators.

A network in ONNX's QDQ form computes ``quantize(operator(dequantize(q), ...))`` with operators of float32, where
``dequantize(q) = scale * (q - zero)``. A convolution or product of two such operands is ::

    scale_data * scale_weights[o] * (sum(q_data * q_weights) - zero_data * sum(q_weights)[o])

with sums that int32 holds exactly; the second is a constant. Operators that only move elements, and the maximum of
windows, move the integers. All others compute in float32 between elementwise operators that take numbers of 8 bits and
leave such, which are fused with them. (Jacob et al., "Quantization and training of neural networks for efficient
integer-arithmetic-only inference", 2018; there the factors are integers as well.)
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

NOTES = "passsearch.float_operators"
"""Attribute of a function with a line for each product of quantised operands that stays in float32, with the reason."""

QUANTIZED = ("int8", "uint8")
"""Types of the integers."""

PRODUCTS = ("relax.nn.conv2d", "relax.matmul")

LARGEST_SUM = 2**31 - 1
"""Limit of int32."""

ROUNDING = 1.5 * 2**23
"""A float32 has no bits behind the point after it is added to this number: what is left is the nearest integer, the
even one of two equally near."""

MOVES = frozenset(
    {"relax.reshape", "relax.flatten", "relax.squeeze", "relax.expand_dims", "relax.strided_slice", "relax.take"}
)
"""Operators whose first operand has the elements of the result, in other places."""


def IntegerOperators() -> Any:  # noqa: N802
    """Return a pass that computes products of quantised tensors in integers and stores 8 bits between operators.

    Products that stay in float32 are named in an attribute of their function. Without quantised tensors nothing
    changes.
    """

    def rewrite(module: Any, _context: Any) -> Any:
        if not any(_quantizes(function) for _, function in module.functions_items()):
            return module
        module = _rewritten(relax.transform.Normalize()(module), _Products)
        module = relax.transform.DeadCodeElimination()(module)
        module = _rewritten(module, _Arithmetic)
        return relax.transform.DeadCodeElimination()(module)

    return tvm.transform.module_pass(rewrite, opt_level=0, name="IntegerOperators")


def _quantizes(function: Any) -> bool:
    calls: list[str] = []
    if isinstance(function, relax.Function):
        relax.analysis.post_order_visit(function, lambda each: calls.append(_name(each)))
    return "relax.quantize" in calls or "relax.dequantize" in calls


def _rewritten(module: Any, writer_class: Any) -> Any:
    writer = writer_class(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            writer.notes = []
            changed = writer.visit_expr(function)
            writer.builder_.update_func(name, changed.with_attr(NOTES, writer.notes) if writer.notes else changed)
    return writer.builder_.finalize()


@dataclass(frozen=True)
class Quantized:
    """A tensor of integers that stands for floats.

    Attributes:
        integers: The tensor.
        scale: One number, or one for each index of an axis.
        zero: Likewise, or one number.
        axis: The axis.
    """

    integers: Any
    scale: Any
    zero: Any
    axis: int

    @property
    def is_per_tensor(self) -> bool:
        """True with one scale and one zero point."""
        return bool(self.scale.size == 1 and self.zero.size == 1)

    @property
    def constant(self) -> Any:
        """The integers minus their zero points as numbers of 8 or 16 bits; ``None`` if they are computed."""
        if not isinstance(self.integers, tvm.ir.GenericConst):
            return None
        values = self.integers.value.numpy().astype("int32") - self._along_axis(self.zero.astype("int32"))
        return values.astype("int8" if values.min(initial=0) >= -128 and values.max(initial=0) <= 127 else "int16")

    @property
    def floats(self) -> Any:
        """The values of constant integers."""
        values = self.integers.value.numpy().astype("int32") - self._along_axis(self.zero.astype("int32"))
        return values.astype("float32") * self._along_axis(self.scale)

    def _along_axis(self, values: Any) -> Any:
        if values.size == 1:
            return values.reshape(())
        return values.reshape([-1 if place == self.axis else 1 for place in range(len(self.integers.ty.shape))])

    def call(self) -> Any:
        """Return the call that makes floats."""
        shape = [] if self.is_per_tensor else [-1]
        scale, zero = self.scale.reshape(shape), self.zero.reshape([] if self.zero.size == 1 else [-1])
        if self.scale.size != self.zero.size:
            zero = np.broadcast_to(zero, scale.shape)
        constants = relax.const(scale, str(scale.dtype)), relax.const(np.ascontiguousarray(zero), str(zero.dtype))
        return relax.op.dequantize(self.integers, *constants, axis=self.axis, out_dtype="float32")


class _Writer(PyExprMutator):  # type: ignore[misc]
    """What both rewrites have in common."""

    notes: list[str]

    def _binding(self, expression: Any) -> Any:
        """Return the call that a variable stands for."""
        found = self.lookup_binding(expression) if isinstance(expression, relax.Var) else None
        return found if isinstance(found, relax.Call) else None

    def quantized(self, expression: Any) -> Quantized | None:
        """Return the integers that an operand stands for, with constant scales; ``None`` for other operands."""
        call = self._binding(expression)
        if call is None or _name(call) != "relax.dequantize" or not _has_constant_scales(call):
            return None
        return _parameters(call)

    def emit(self, value: Any) -> Any:
        """Bind a value to a variable."""
        return self.builder_.emit(value)


@mutator
class _Products(_Writer):
    """Moves integers through operators that keep them, and replaces products by those of integers."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        name = _name(call)
        if name == "relax.quantize":
            return self._requantized(call)
        if name in PRODUCTS:
            return self._product(call)
        if name in MOVES or name in ("relax.permute_dims", "relax.nn.max_pool2d"):
            return self._moved(call)
        return self._joined(call) if name == "relax.concat" else call

    def _requantized(self, call: Any) -> Any:
        """Return integers that were made floats for the same scale and zero point as they were."""
        source = self.quantized(call.args[0])
        if source is None or not source.is_per_tensor or not _has_constant_scales(call):
            return call
        own = _parameters(call)
        is_same = (
            own.is_per_tensor and own.scale.ravel() == source.scale.ravel() and own.zero.ravel() == source.zero.ravel()
        )
        return source.integers if is_same and own.zero.dtype == source.zero.dtype else call

    def _moved(self, call: Any) -> Any:
        source = self.quantized(call.args[0])
        if source is None:
            return call
        axis = source.axis
        if not source.is_per_tensor:
            if _name(call) != "relax.permute_dims":
                return call
            axes = call.attrs.axes
            rank = len(call.ty.shape)
            order = [int(each) % rank for each in axes] if axes is not None else list(range(rank))[::-1]
            axis = order.index(source.axis)
        integers: Any
        if _name(call) == "relax.permute_dims" and isinstance(source.integers, tvm.ir.GenericConst):
            order = [int(each) for each in call.attrs.axes] if call.attrs.axes is not None else None
            array = np.ascontiguousarray(np.transpose(source.integers.value.numpy(), order))
            integers = relax.const(array, str(array.dtype))
        else:
            integers = self.emit(relax.Call(call.op, [source.integers, *call.args[1:]], call.attrs))
        return replace(source, integers=integers, axis=axis).call()

    def _joined(self, call: Any) -> Any:
        if not isinstance(call.args[0], relax.Tuple):
            return call
        parts = [self.quantized(each) for each in call.args[0].fields]
        known = [each for each in parts if each is not None and each.is_per_tensor]
        same = {(float(each.scale.ravel()[0]), int(each.zero.ravel()[0]), str(each.zero.dtype)) for each in known}
        if len(known) < len(parts) or len(same) > 1:
            return call
        joined = relax.Call(call.op, [relax.Tuple([each.integers for each in known]), *call.args[1:]], call.attrs)
        return replace(known[0], integers=self.emit(joined)).call()

    def _product(self, call: Any) -> Any:
        data, weights = (self.quantized(each) for each in call.args)
        if data is None or weights is None:
            if data is not None or weights is not None:
                self.notes.append(f"{_text(call)}: an operand is not quantised")
            return call
        write = _Convolution if _name(call) == "relax.nn.conv2d" else _MatrixProduct
        product = write(call, data, weights, self.emit)
        if reason := product.refusal():
            self.notes.append(f"{_text(call)}: {reason}")
            return call
        return product.call()


@dataclass(frozen=True)
class _Product:
    """A product of quantised operands.

    Attributes:
        original: The call on floats.
        data: The first operand.
        weights: The second one.
        emit: Binds a value to a variable.
    """

    original: Any
    data: Quantized
    weights: Quantized
    emit: Callable[[Any], Any]

    def _bound(self, steps: int) -> bool:
        """Return True if a sum of this many products may be too large for int32."""
        largest = (
            128 if (values := self.weights.constant) is None else int(np.abs(values.astype("int32")).max(initial=0))
        )
        return steps * 255 * max(largest, 1) > LARGEST_SUM

    def _scaled(self, sums: Any, correction: Any, scale: Any, shape: Sequence[int]) -> Any:
        """Return the floats of sums.

        Args:
            sums: The sums of products of integers.
            correction: What is to be subtracted, one number for each channel; ``None`` for nothing.
            scale: The product of both scales.
            shape: The shape in which channels are along those of the sums.
        """
        if correction is not None and np.any(correction):
            dtype = str(sums.ty.dtype)
            sums = self.emit(relax.op.subtract(sums, relax.const(correction.reshape(shape).astype(dtype), dtype)))
        if str(sums.ty.dtype) != "float32":
            sums = self.emit(relax.op.astype(sums, "float32"))
        factor = scale.astype("float32").reshape(shape if scale.size > 1 else [])
        return relax.op.multiply(sums, relax.const(factor, "float32"))


class _Convolution(_Product):
    def refusal(self) -> str:
        """Return why the convolution stays in float32; empty if it does not."""
        attrs = self.original.attrs
        if str(attrs.data_layout) != "NCHW" or str(attrs.kernel_layout) != "OIHW":
            return "it is in another layout"
        if self.weights.constant is None or not self.data.is_per_tensor:
            return "its weights are computed" if self.weights.constant is None else "its data have several scales"
        if not self.weights.is_per_tensor and self.weights.axis != 0:
            return "its weights have scales along another axis than that of the outputs"
        return "its sums may not fit into 32 bits" if self._bound(math.prod(self._kernel[1:])) else ""

    @property
    def _kernel(self) -> list[int]:
        return [int(size) for size in self.original.args[1].ty.shape]

    def call(self) -> Any:
        """Return the floats."""
        attrs, values = self.original.attrs, self.weights.constant
        zero, padding = int(self.data.zero.ravel()[0]), [int(each) for each in attrs.padding]
        data = self.data.integers
        if zero and any(padding):
            top, left, bottom, right = padding
            widths = [0, 0, 0, 0, top, bottom, left, right]
            data = self.emit(relax.op.nn.pad(data, widths, "constant", zero))
            padding = [0, 0, 0, 0]
        # Few products for each sum: float32 holds these exactly as well, and has vectors of neighbours at once.
        sums_in = "float32" if self._kernel[1] == 1 and int(attrs.groups) > 1 else "int32"
        dtype = sums_in if sums_in == "float32" else str(values.dtype)
        weights = relax.const(values.astype(dtype), dtype)
        sums = self.emit(
            relax.op.nn.conv2d(
                data,
                weights,
                strides=list(attrs.strides),
                padding=padding,
                dilation=list(attrs.dilation),
                groups=int(attrs.groups),
                data_layout="NCHW",
                kernel_layout="OIHW",
                out_dtype=sums_in,
            )
        )
        correction = zero * values.astype("int64").sum((1, 2, 3)).astype("int32") if zero else None
        scale = self.data.scale.ravel() * self.weights.scale.ravel()
        return self._scaled(sums, correction, scale, [1, -1, 1, 1])


class _MatrixProduct(_Product):
    def refusal(self) -> str:
        """Return why the product stays in float32; empty if it does not."""
        rank = len(self.original.args[1].ty.shape)
        steps = self.original.args[1].ty.shape[-2 if rank > 1 else 0]
        if not isinstance(steps, tvm.tirx.IntImm) or self._bound(int(steps)):
            return "its sums may not fit into 32 bits"
        if not self.data.is_per_tensor:
            return "its data have several scales"
        if not self.weights.is_per_tensor and (self.weights.axis != rank - 1 or self.weights.constant is None):
            return "its weights have scales along another axis than that of the outputs"
        return ""

    def call(self) -> Any:
        """Return the floats."""
        zero, values = int(self.data.zero.ravel()[0]), self.weights.constant
        scale = self.data.scale.ravel() * self.weights.scale.ravel()
        if values is None:
            operands = [self._centred(self.data), self._centred(self.weights)]
            return self._scaled(self.emit(relax.op.matmul(*operands, out_dtype="int32")), None, scale, [])
        weights = relax.const(values, str(values.dtype))
        is_shared = values.ndim == 2  # else the sums of the weights differ between matrices
        data = self.data.integers if is_shared else self._centred(self.data)
        sums = self.emit(relax.op.matmul(data, weights, out_dtype="int32"))
        correction = zero * values.astype("int64").sum(0).astype("int32") if zero and is_shared else None
        return self._scaled(sums, correction, scale, [-1])

    def _centred(self, operand: Quantized) -> Any:
        """Return integers minus their zero point."""
        if (values := operand.constant) is not None:
            return relax.const(values, str(values.dtype))
        zero = int(operand.zero.ravel()[0])
        if not zero:
            return operand.integers
        wide = self.emit(relax.op.astype(operand.integers, "int16"))
        return self.emit(relax.op.subtract(wide, relax.const(np.int16(zero), "int16")))


@mutator
class _Arithmetic(_Writer):
    """Writes the conversions between integers and floats out, for every use by itself, so that they are fused there."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._bindings: dict[Any, Any] = {}
        self._uses: collections.Counter[Any] = collections.Counter()
        self._target: Any = None  # the variable whose value is visited
        self._rounded: dict[Any, Any] = {}  # by the variable of integers, those minus their zero point in float32

    def visit_function_(self, function: Any) -> Any:
        relax.analysis.post_order_visit(function, self._count)
        return super().visit_function_(function)

    def _count(self, expression: Any) -> None:
        if isinstance(expression, relax.SeqExpr):
            bindings = [each for block in expression.blocks for each in block.bindings]
            calls = [each for each in bindings if isinstance(each.value, relax.Call)]
            self._bindings.update({each.var: each.value for each in calls})
            self._uses.update(
                used for value in [*(each.value for each in bindings), expression.body] for used in _operands(value)
            )

    def visit_var_binding_(self, binding: Any) -> None:
        self._target = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Any) -> Any:
        target = self._target
        if _name(call) == "relax.dequantize":
            return self.visit_expr_post_order(call)  # its uses replace it
        if _name(call) == "relax.quantize" and (rounded := self._quantize(call)) is not None:
            self._rounded[target] = rounded
            zero = _parameters(call).zero
            if number := float(zero.ravel()[0]):
                rounded = self.emit(relax.op.add(rounded, relax.const(np.float32(number), "float32")))
            return relax.op.astype(rounded, str(zero.dtype))
        arguments = [self._operand(each) for each in call.args]
        is_same = all(old.same_as(new) for old, new in zip(call.args, arguments, strict=True))
        return call if is_same else relax.Call(call.op, arguments, call.attrs, call.ty_args)

    def _operand(self, operand: Any) -> Any:
        """Return what an operator reads in place of an operand."""
        if isinstance(operand, relax.Tuple):
            return relax.Tuple([self._operand(each) for each in operand.fields])
        floats = self._floats(operand, 1.0)
        return self.visit_expr(operand) if floats is None else floats

    def _floats(self, operand: Any, factor: float) -> Any:
        """Return the floats that integers stand for times a factor; ``None`` for what is no ``dequantize`` of such."""
        call = self._bindings.get(operand)
        if call is None or _name(call) != "relax.dequantize" or not _has_constant_scales(call):
            return None
        source = _parameters(call)
        if str(source.integers.ty.dtype) not in (*QUANTIZED, "int32"):
            return None
        if isinstance(source.integers, tvm.ir.GenericConst):
            return relax.const(source.floats * np.float32(factor), "float32")
        if not source.is_per_tensor:
            return None
        scale = (source.scale.astype("float64") * factor).astype("float32").reshape(())
        is_only_use = self._uses[operand] == 1 and self._uses[source.integers] == 1
        if is_only_use and source.integers in self._rounded:
            origin = _parameters(self._bindings[source.integers])
            if origin.zero.ravel()[0] == source.zero.ravel()[0]:
                return self.emit(relax.op.multiply(self._rounded[source.integers], relax.const(scale, "float32")))
        value = self.emit(relax.op.astype(self.visit_expr(source.integers), "float32"))
        if zero := float(source.zero.ravel()[0]):
            value = self.emit(relax.op.subtract(value, relax.const(np.float32(zero), "float32")))
        return self.emit(relax.op.multiply(value, relax.const(scale, "float32")))

    def _quantize(self, call: Any) -> Any:
        """Return the integers minus their zero point in float32; ``None`` for conversions that stay as they are."""
        if not _has_constant_scales(call):
            return None
        target = _parameters(call)
        if not target.is_per_tensor or str(target.zero.dtype) not in QUANTIZED:
            return None
        info, zero = np.iinfo(target.zero.dtype), int(target.zero.ravel()[0])
        value = self._scaled(target.integers, 1 / float(target.scale.ravel()[0]))
        value = self.emit(relax.op.clip(value, float(info.min - zero), float(info.max - zero)))
        # TVM makes no vectors of nearbyint of the polynomials of ExpandMath.
        shift = relax.const(np.float32(ROUNDING), "float32")
        return self.emit(relax.op.subtract(self.emit(relax.op.add(value, shift)), shift))

    def _scaled(self, operand: Any, factor: float) -> Any:
        """Return an operand times a positive factor, which constants take where nothing else reads them."""
        if isinstance(operand, tvm.ir.GenericConst):
            return relax.const(operand.value.numpy() * np.float32(factor), "float32")
        if (floats := self._floats(operand, factor)) is not None:
            return floats
        call = self._bindings.get(operand)
        if call is not None and self._uses[operand] == 1:
            name, arguments = _name(call), call.args
            if name == "relax.nn.relu":
                return self.emit(relax.op.nn.relu(self._scaled(arguments[0], factor)))
            if name == "relax.add":
                return self.emit(relax.op.add(*(self._scaled(each, factor) for each in arguments)))
            if name == "relax.multiply" and isinstance(arguments[1], tvm.ir.GenericConst):
                constant = self._scaled(arguments[1], factor)
                return self.emit(relax.op.multiply(self._operand(arguments[0]), constant))
        return self.emit(relax.op.multiply(self._operand(operand), relax.const(np.float32(factor), "float32")))


def _operands(value: Any) -> list[Any]:
    """Return the variables that an expression reads, as often as it does."""
    if isinstance(value, relax.Var):
        return [value]
    fields = value.args if isinstance(value, relax.Call) else getattr(value, "fields", [])
    if isinstance(value, relax.TupleGetItem):
        fields = [value.tuple_value]
    return [used for each in fields for used in _operands(each)]


def _has_constant_scales(call: Any) -> bool:
    return all(isinstance(each, tvm.ir.GenericConst) for each in call.args[1:3])


def _parameters(call: Any) -> Quantized:
    """Return operand, scale and zero point of a conversion."""
    scale, zero = (each.value.numpy() for each in call.args[1:3])
    rank = len(call.args[0].ty.shape)
    return Quantized(call.args[0], scale, zero, int(call.attrs.axis) % max(rank, 1))


def _name(call: Any) -> str:
    return str(call.op.name) if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op) else ""


def _text(call: Any) -> str:
    """Return a product by its operator and the shape of its result."""
    sizes = (str(int(size)) if isinstance(size, tvm.tirx.IntImm) else str(size) for size in call.ty.shape)
    return f"{_name(call).rsplit('.', 1)[-1]} to {'x'.join(sizes)}"
