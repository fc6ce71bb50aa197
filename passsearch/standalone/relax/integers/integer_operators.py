"""The pass that computes quantised networks in integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import mutator

from .arithmetic import Arithmetic
from .products import Convolution, MatrixProduct
from .quantized import Writer, has_constant_scales, name_of, parameters, text_of

NOTES = "passsearch.float_operators"
"""Attribute of a function with a line for each product of quantised operands that stays in float32, with the reason."""

PRODUCTS = ("relax.nn.conv2d", "relax.matmul")

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
        module = _rewritten(module, Arithmetic)
        return relax.transform.DeadCodeElimination()(module)

    return tvm.transform.module_pass(rewrite, opt_level=0, name="IntegerOperators")


def _quantizes(function: Any) -> bool:
    calls: list[str] = []
    if isinstance(function, relax.Function):
        relax.analysis.post_order_visit(function, lambda each: calls.append(name_of(each)))
    return "relax.quantize" in calls or "relax.dequantize" in calls


def _rewritten(module: Any, writer_class: Any) -> Any:
    writer = writer_class(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            writer.notes = []
            changed = writer.visit_expr(function)
            writer.builder_.update_func(name, changed.with_attr(NOTES, writer.notes) if writer.notes else changed)
    return writer.builder_.finalize()


@mutator
class _Products(Writer):
    """Moves integers through operators that keep them, and replaces products by those of integers."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        name = name_of(call)
        if name == "relax.quantize":
            return self._requantized(call)
        if name == "relax.dequantize":
            return self._of_unsigned(call)
        if name in PRODUCTS:
            return self._product(call)
        if name in MOVES or name in ("relax.permute_dims", "relax.nn.max_pool2d"):
            return self._moved(call)
        return self._joined(call) if name == "relax.concat" else call

    def _requantized(self, call: Any) -> Any:
        """Return integers that were made floats for the same scale and zero point as they were.

        Others with a sign are made of numbers without one, which processors multiply by constants with a sign.
        """
        if not has_constant_scales(call):
            return call
        own, source = parameters(call), self.quantized(call.args[0])
        moved = own.unsigned
        if source is not None and moved.has_steps_of(source.unsigned):
            return source.integers if own.zero.dtype == source.zero.dtype else call
        if str(own.zero.dtype) != "int8" or not own.is_per_tensor:
            return call
        zero = relax.const(moved.zero, "uint8")
        integers = self.emit(
            relax.op.quantize(call.args[0], call.args[1], zero, axis=call.attrs.axis, out_dtype="uint8")
        )
        floats = self.emit(replace(moved, integers=integers).call())
        return relax.op.quantize(floats, *call.args[1:3], axis=call.attrs.axis, out_dtype="int8")

    def _of_unsigned(self, call: Any) -> Any:
        """Return the floats of numbers without a sign, if those of a call are made of such by ``_requantized``."""
        made = self._binding(call.args[0])
        source = self.quantized(made.args[0]) if made is not None and name_of(made) == "relax.quantize" else None
        if source is None or not has_constant_scales(call) or not has_constant_scales(made):
            return call
        own = parameters(call)
        return source.call() if own.unsigned.has_steps_of(source) and own.has_steps_of(parameters(made)) else call

    def _moved(self, call: Any) -> Any:
        source = self.quantized(call.args[0])
        if source is None:
            return call
        axis = source.axis
        if not source.is_per_tensor:
            if name_of(call) != "relax.permute_dims":
                return call
            axes = call.attrs.axes
            rank = len(call.ty.shape)
            order = [int(each) % rank for each in axes] if axes is not None else list(range(rank))[::-1]
            axis = order.index(source.axis)
        integers: Any
        if name_of(call) == "relax.permute_dims" and isinstance(source.integers, tvm.ir.GenericConst):
            turned = [int(each) for each in call.attrs.axes] if call.attrs.axes is not None else None
            array = np.ascontiguousarray(np.transpose(source.integers.value.numpy(), turned))
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
                self.notes.append(f"{text_of(call)}: an operand is not quantised")
            return call
        write = Convolution if name_of(call) == "relax.nn.conv2d" else MatrixProduct
        product = write(call, data, weights, self.emit)
        if reason := product.refusal():
            self.notes.append(f"{text_of(call)}: {reason}")
            return call
        return product.call()
