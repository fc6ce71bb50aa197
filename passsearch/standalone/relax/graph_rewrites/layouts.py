"""A conversion of layouts for networks on which TVM's own pass crashes, and without convolutions that lose by it."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import FloatImm, IntImm

# If a transposed convolution took over NHWC from its input, ``LegalizeOps`` could not make loops of it.
_FIXED_LAYOUTS = {"relax.nn.conv2d_transpose": ["NCHW", "IOHW"]}

LEAST_GROUP = 8
"""Output channels of a group from which a grouped convolution is converted to NHWC.

Vectors are along the channels of one group, and one of 8 lanes is a whole one of AVX. A convolution that stays in NCHW
has a transposition on either side.
"""

_AXES = {"squeeze": "axis", "permute_dims": "axes"}
"""Attributes with axes that TVM's layout inference uses as indices, so that they must not be negative."""


def ConvertLayout(layout: str = "NHWC", kernel: str = "HWIO") -> Any:  # noqa: N802
    """Return ``relax.transform.ConvertLayout`` for resizes and for all convolutions but those of small groups.

    With channels last, vectors are along the channels of one group, and those of small groups are short.

    TVM's layout inference (0.27) assumes that both operands of an elementwise operator are tensors, and uses axes of
    some operators as indices. A plain number, such as the epsilon of a folded batch norm, crashes the process, and an
    axis of -1 can crash it. Therefore numbers become constants and axes become positive first.

    Args:
        layout: Layout of the data.
        kernel: Layout of the kernels for data in NHWC; with any other data layout kernels are OIHW.
    """
    desired = [layout, kernel if layout == "NHWC" else "OIHW"]

    def layouts_of(call: Any) -> dict[str, list[str]]:
        stays = layout == "NHWC" and _has_small_groups(call)
        # A resize would keep the layout of tokens that the network itself has made an image of.
        others = {"relax.image.resize2d": [layout], **_FIXED_LAYOUTS}
        return {"relax.nn.conv2d": ["NCHW", "OIHW"] if stays else desired, **others}

    convert = transform.ConvertLayout({}, layouts_of)

    def convert_all(module: Any) -> Any:
        writer = _LayoutPreparation(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        # A module that has the layout already stays the same IR, without the prepared numbers and axes.
        return module if writer.layouts <= {tuple(desired)} else convert(writer.builder_.get())

    return tvm.transform.module_pass(lambda module, _context: convert_all(module), opt_level=0, name="ConvertLayout")


def _has_small_groups(call: Any) -> bool:
    """Return True for a convolution of groups that are smaller than a vector, other than depthwise ones."""
    if not isinstance(call.op, tvm.ir.Op) or call.op.name != "relax.nn.conv2d" or int(call.attrs.groups) == 1:
        return False
    shape, layout = call.args[1].ty.shape, str(call.attrs.kernel_layout)
    members, outputs = int(shape[layout.index("I")]), int(shape[layout.index("O")]) // int(call.attrs.groups)
    return members > 1 and outputs < LEAST_GROUP


@mutator
class _LayoutPreparation(PyExprMutator):  # type: ignore[misc]
    """Makes constants of numbers beside tensors, makes axes positive, and records the layouts of convolutions.

    A clip becomes a minimum and a maximum, whose layouts TVM infers.

    Source: ``InferLayoutBinaryEwise``, ``InferLayoutSqueeze``, ``InferLayoutPermuteDims`` in ``src/relax/op/tensor``.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.layouts: set[tuple[str, str]] = set()

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if (
            not isinstance(call.op, tvm.ir.Op) or not self.builder_.current_block_is_dataflow()
        ):  # TVM's pass skips the rest
            return call
        name = call.op.name.removeprefix("relax.")
        if name == "nn.conv2d" and not _has_small_groups(call):
            self.layouts.add((str(call.attrs.data_layout), str(call.attrs.kernel_layout)))
        if name in _AXES:
            axes, rank = getattr(call.attrs, _AXES[name]), call.args[0].ty.ndim
            is_static = axes is not None and rank >= 0
            return getattr(relax.op, name)(call.args[0], [int(axis) % rank for axis in axes]) if is_static else call
        if name == "clip":
            return self._clip(call)
        # relax.op.binary holds exactly the operators of InferLayoutBinaryEwise.
        is_binary = hasattr(relax.op.binary, name)
        if is_binary and not all(isinstance(operand.ty, relax.TensorType) for operand in call.args):
            return relax.Call(call.op, [_as_tensor(operand) for operand in call.args], call.attrs)
        return call

    def _clip(self, call: Any) -> Any:
        """Return a clip as minimum and maximum: TVM infers no layout for a clip, and would transpose around each.

        The lower bound comes last, as in TVM's clip: it counts where it is above the upper one.
        """
        array, *bounds = call.args
        if not all(isinstance(bound, (FloatImm, IntImm)) for bound in bounds):
            return call
        low, high = (relax.const(bound.value, str(array.ty.dtype)) for bound in bounds)
        below = self.builder_.emit(relax.op.minimum(array, high))
        return relax.op.maximum(below, low)


def _as_tensor(operand: Any) -> Any:
    if isinstance(operand, (FloatImm, IntImm)):
        return relax.const(operand.value, str(operand.ty.dtype))
    if isinstance(operand.ty, relax.TensorType):
        return operand
    raise ValueError(f"ConvertLayout takes tensors and plain numbers as operands, not {operand} of type {operand.ty}")
