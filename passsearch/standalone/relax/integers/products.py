"""Products and convolutions of quantised tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from .quantized import Quantized

LARGEST_SUM, LARGEST_EXACT = 2**31 - 1, 2**24
"""Limits of int32, and of the integers that float32 has all of."""


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

    def _bound(self, steps: int) -> int:
        """Return a number that no sum of this many products is beyond."""
        values = self.weights.constant
        largest = 255 if values is None else int(np.abs(values.astype("int32")).max(initial=0))
        return steps * 255 * max(largest, 1)

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


class Convolution(_Product):
    """A convolution of images."""

    def refusal(self) -> str:
        """Return why the convolution stays in float32; empty if it does not."""
        attrs = self.original.attrs
        if str(attrs.data_layout) != "NCHW" or str(attrs.kernel_layout) != "OIHW":
            return "it is in another layout"
        if self.weights.constant is None or not self.data.is_per_tensor:
            return "its weights are computed" if self.weights.constant is None else "its data have several scales"
        if not self.weights.is_per_tensor and self.weights.axis != 0:
            return "its weights have scales along another axis than that of the outputs"
        return "its sums may not fit into 32 bits" if self._bound(math.prod(self._kernel[1:])) > LARGEST_SUM else ""

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
        # Sums of few products are exact in float32, too, which has vectors of neighbours at once.
        is_depthwise = self._kernel[1] == 1 and int(attrs.groups) > 1
        sums_in = "float32" if is_depthwise and self._bound(math.prod(self._kernel[1:])) <= LARGEST_EXACT else "int32"
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


class MatrixProduct(_Product):
    """A product of matrices."""

    def refusal(self) -> str:
        """Return why the product stays in float32; empty if it does not."""
        rank = len(self.original.args[1].ty.shape)
        steps = self.original.args[1].ty.shape[-2 if rank > 1 else 0]
        if not isinstance(steps, tvm.tirx.IntImm) or self._bound(int(steps)) > LARGEST_SUM:
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
