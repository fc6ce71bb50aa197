"""Conversions between integers and floats as elementwise operators."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from .quantized import QUANTIZED, Writer, has_constant_scales, name_of, parameters

ROUNDING = 1.5 * 2**23
"""A float32 has no bits behind the point after it is added to this number: what is left is the nearest integer, the
even one of two equally near."""


@mutator
class Arithmetic(Writer):
    """Writes the conversions between integers and floats out, for every use by itself, so that they are fused there."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._bindings: dict[Any, Any] = {}
        self._uses: collections.Counter[Any] = collections.Counter()
        self._target: Any = None  # the variable whose value is visited
        self._rounded: dict[Any, Any] = {}  # by the variable of integers, those minus their zero point in float32

    def visit_function_(self, function: Any) -> Any:
        """Find what reads each variable first."""
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
        """Remember the variable whose value is visited."""
        self._target = binding.var
        super().visit_var_binding_(binding)

    def visit_call_(self, call: Any) -> Any:
        """Return a call with elementwise operators in place of conversions."""
        target = self._target
        if name_of(call) == "relax.dequantize":
            return self.visit_expr_post_order(call)  # its uses replace it
        if name_of(call) == "relax.quantize" and (rounded := self._quantize(call)) is not None:
            self._rounded[target] = rounded
            zero = parameters(call).zero
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
        if call is None or name_of(call) != "relax.dequantize" or not has_constant_scales(call):
            return None
        source = parameters(call)
        if str(source.integers.ty.dtype) not in (*QUANTIZED, "int32"):
            return None
        if isinstance(source.integers, tvm.ir.GenericConst):
            return relax.const(source.floats * np.float32(factor), "float32")
        if not source.is_per_tensor:
            return None
        scale = (source.scale.astype("float64") * factor).astype("float32").reshape(())
        is_only_use = self._uses[operand] == 1 and self._uses[source.integers] == 1
        if is_only_use and source.integers in self._rounded:
            origin = parameters(self._bindings[source.integers])
            if origin.zero.ravel()[0] == source.zero.ravel()[0]:
                return self.emit(relax.op.multiply(self._rounded[source.integers], relax.const(scale, "float32")))
        value = self.emit(relax.op.astype(self.visit_expr(source.integers), "float32"))
        if zero := float(source.zero.ravel()[0]):
            value = self.emit(relax.op.subtract(value, relax.const(np.float32(zero), "float32")))
        return self.emit(relax.op.multiply(value, relax.const(scale, "float32")))

    def _quantize(self, call: Any) -> Any:
        """Return the integers minus their zero point in float32; ``None`` for conversions that stay as they are."""
        if not has_constant_scales(call):
            return None
        target = parameters(call)
        if not target.is_per_tensor or str(target.zero.dtype) not in QUANTIZED:
            return None
        info, zero = np.iinfo(target.zero.dtype), int(target.zero.ravel()[0])
        value = self._scaled(target.integers, 1 / float(target.scale.ravel()[0]))
        # TVM makes no vectors of nearbyint of ExpandMath's polynomials, and would cancel a shift without the bounds.
        shift = relax.const(np.float32(ROUNDING), "float32")
        shifted = self.emit(relax.op.add(value, shift))
        clipped = self.emit(relax.op.clip(shifted, *(float(each - zero) + ROUNDING for each in (info.min, info.max))))
        return self.emit(relax.op.subtract(clipped, shift))

    def _scaled(self, operand: Any, factor: float) -> Any:
        """Return an operand times a positive factor, which constants take where nothing else reads them."""
        if isinstance(operand, tvm.ir.GenericConst):
            return relax.const(operand.value.numpy() * np.float32(factor), "float32")
        if (floats := self._floats(operand, factor)) is not None:
            return floats
        call = self._bindings.get(operand)
        if call is not None and self._uses[operand] == 1:
            name, arguments = name_of(call), call.args
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
