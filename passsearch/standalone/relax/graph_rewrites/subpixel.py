"""Transposed convolutions as convolutions that multiply no zeros.

A transposed convolution of stride s puts s - 1 zeros between the elements of its data and convolves what results. In
two dimensions all but one of s² multiplications are therefore with zeros. Outputs whose positions leave the same
remainder by s read the same elements of the kernel. Each of these phases is a convolution of the data itself: one
convolution computes all of them as channels, and a transposition brings them to their places. (Shi et al., "Is the
deconvolution layer the same as a convolutional layer?", 2016.) Where the kernel is no multiple of the stride, the
kernels of some phases have zeros, so that infinite data give NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

CONVOLUTIONS = {
    "relax.nn.conv1d_transpose": (relax.op.nn.conv1d, "NCW", "IOW", "OIW"),
    "relax.nn.conv2d_transpose": (relax.op.nn.conv2d, "NCHW", "IOHW", "OIHW"),
}
"""The convolution, layouts of data and weights, and the layout of the convolution's weights, by operator."""


def SubpixelConvolution() -> Any:  # noqa: N802
    """Return a pass that computes transposed convolutions with constant weights as convolutions of their phases."""

    def rewrite(module: Any, _context: Any) -> Any:
        writer = _Writer(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return writer.builder_.finalize()

    return tvm.transform.module_pass(rewrite, opt_level=0, name="SubpixelConvolution")


@dataclass(frozen=True)
class _Axis:
    """One dimension of the data.

    Attributes:
        size: Elements of the data.
        kernel: Elements of the kernel.
        stride: Phases.
        padding_before: Elements of the full result before the first that is wanted.
        result: Elements of the result.
    """

    size: int
    kernel: int
    stride: int
    padding_before: int
    result: int

    @property
    def taps(self) -> int:
        """Elements of the kernel that a phase reads, zeros at its end included."""
        return -(-self.kernel // self.stride)

    @property
    def count(self) -> int:
        """Results of each phase, those that are cut off included."""
        return -(-(self.first + self.result) // self.stride)

    @property
    def first(self) -> int:
        """Place of the first element that is wanted among the results of all phases."""
        return self.padding_before % self.stride

    @property
    def padding(self) -> tuple[int, int]:
        """Zeros before and after the data; negative where data would have to be left out."""
        before = self.taps - 1 - self.padding_before // self.stride
        return before, self.count + self.taps - 1 - self.size - before


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces transposed convolutions."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        axes = _axes(call)
        if axes is None:
            return call
        data, weights = call.args
        convolve, data_layout, _, kernel_layout = CONVOLUTIONS[call.op.name]
        padding = [axis.padding[end] for end in (0, 1) for axis in axes]
        layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
        array = _phases(weights.value.numpy(), axes)
        constant = relax.const(array, str(array.dtype))  # without a type, TVM narrows 64 bits to 32
        return self._in_places(self.builder_.emit(convolve(data, constant, padding=padding, **layouts)), axes)

    def _in_places(self, phases: Any, axes: Sequence[_Axis]) -> Any:
        """Return the result from phases that are channels."""
        batch, channels = int(phases.ty.shape[0]), int(phases.ty.shape[1])
        strides, counts = [axis.stride for axis in axes], [axis.count for axis in axes]
        outputs, number = channels // math.prod(strides), len(axes)
        split = self.builder_.emit(relax.op.reshape(phases, [batch, *strides, outputs, *counts]))
        order = [place for axis in range(number) for place in (number + 2 + axis, 1 + axis)]
        interleaved = self.builder_.emit(relax.op.permute_dims(split, [0, number + 1, *order]))
        result = relax.op.reshape(interleaved, [batch, outputs, *(axis.stride * axis.count for axis in axes)])
        if all(axis.result == axis.stride * axis.count for axis in axes):
            return result
        begin = [axis.first for axis in axes]
        end = [axis.first + axis.result for axis in axes]
        return relax.op.strided_slice(self.builder_.emit(result), list(range(2, number + 2)), begin, end)


def _axes(call: Any) -> list[_Axis] | None:
    """Return the dimensions of a transposed convolution that is better computed by phases; ``None`` for other calls."""
    name = call.op.name if isinstance(call.op, tvm.ir.Op) else ""
    if name not in CONVOLUTIONS or not isinstance(call.args[1], tvm.ir.GenericConst):
        return None
    data, weights = call.args
    attributes, (_, data_layout, kernel_layout, _) = call.attrs, CONVOLUTIONS[name]
    is_plain = int(attributes.groups) == 1 and all(int(step) == 1 for step in attributes.dilation)
    layouts = (attributes.data_layout, attributes.kernel_layout, attributes.out_layout)
    same_type = data.ty.dtype == weights.ty.dtype == call.ty.dtype
    if not is_plain or layouts != (data_layout, kernel_layout, data_layout) or not same_type:
        return None
    shapes = (data.ty.shape, call.ty.shape)
    if not all(isinstance(shape, relax.ShapeExpr) and _is_static(shape) for shape in shapes):
        return None
    number = len(data_layout) - 2
    axes = [
        _Axis(
            int(data.ty.shape[2 + axis]),
            int(weights.ty.shape[2 + axis]),
            int(attributes.strides[axis]),
            int(attributes.padding[axis]),
            int(call.ty.shape[2 + axis]),
        )
        for axis in range(number)
    ]
    # With stride 1 nothing is saved, but ScheduleCPU has tiles for convolutions and none for transposed ones.
    gains = any(axis.taps < axis.kernel for axis in axes) or all(axis.stride == 1 for axis in axes)
    return axes if gains and min(end for axis in axes for end in axis.padding) >= 0 else None


def _is_static(shape: Any) -> bool:
    return all(isinstance(size, tvm.tirx.IntImm) for size in shape)


def _phases(weights: Any, axes: Sequence[_Axis]) -> Any:
    """Return the weights of all phases.

    Their first dimension has the phase of every dimension and, innermost, the channel. Taps are in reverse order,
    because a convolution reads its kernel in the order of its data.
    """
    inputs, outputs = weights.shape[:2]
    zeros = [(0, 0), (0, 0), *((0, axis.taps * axis.stride - axis.kernel) for axis in axes)]
    sizes = [size for axis in axes for size in (axis.taps, axis.stride)]
    split = np.pad(weights, zeros).reshape(inputs, outputs, *sizes)
    taps, phases = range(2, 2 + len(sizes), 2), range(3, 3 + len(sizes), 2)
    rearranged = np.flip(split, tuple(taps)).transpose(*phases, 1, 0, *taps)
    return np.ascontiguousarray(rearranged).reshape(-1, inputs, *(axis.taps for axis in axes))
