"""Tensors of integers that stand for floats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator

QUANTIZED = ("int8", "uint8")
"""Types of the integers."""


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
    def unsigned(self) -> Quantized:
        """The same numbers moved by 128 if they have a sign; ``integers`` stays as it is."""
        is_signed = str(self.zero.dtype) == "int8"
        return replace(self, zero=(self.zero.astype("int16") + 128).astype("uint8")) if is_signed else self

    def has_steps_of(self, other: Quantized) -> bool:
        """Return True if the same integers stand for the same floats, with one scale and zero point."""
        return (
            self.is_per_tensor
            and other.is_per_tensor
            and bool(self.scale.ravel() == other.scale.ravel() and self.zero.ravel() == other.zero.ravel())
            and bool(self.zero.dtype == other.zero.dtype)
        )

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


class Writer(PyExprMutator):  # type: ignore[misc]
    """What both rewrites have in common."""

    notes: list[str]

    def _binding(self, expression: Any) -> Any:
        """Return the call that a variable stands for."""
        found = self.lookup_binding(expression) if isinstance(expression, relax.Var) else None
        return found if isinstance(found, relax.Call) else None

    def quantized(self, expression: Any) -> Quantized | None:
        """Return the integers that an operand stands for, with constant scales; ``None`` for other operands."""
        call = self._binding(expression)
        if call is None or name_of(call) != "relax.dequantize" or not has_constant_scales(call):
            return None
        return parameters(call)

    def emit(self, value: Any) -> Any:
        """Bind a value to a variable."""
        return self.builder_.emit(value)


def has_constant_scales(call: Any) -> bool:
    """Return True if scale and zero point of a conversion are constant."""
    return all(isinstance(each, tvm.ir.GenericConst) for each in call.args[1:3])


def parameters(call: Any) -> Quantized:
    """Return operand, scale and zero point of a conversion."""
    scale, zero = (each.value.numpy() for each in call.args[1:3])
    rank = len(call.args[0].ty.shape)
    return Quantized(call.args[0], scale, zero, int(call.attrs.axis) % max(rank, 1))


def name_of(call: Any) -> str:
    """Return the name of a call's operator; empty for other expressions."""
    return str(call.op.name) if isinstance(call, relax.Call) and isinstance(call.op, tvm.ir.Op) else ""


def text_of(call: Any) -> str:
    """Return a product by its operator and the shape of its result."""
    sizes = (str(int(size)) if isinstance(size, tvm.tirx.IntImm) else str(size) for size in call.ty.shape)
    return f"{name_of(call).rsplit('.', 1)[-1]} to {'x'.join(sizes)}"
