"""Converters of ONNX's Resize and Upsample that TVM's importer of Relax gets wrong.

* ``Upsample`` rounds like Resize with its defaults, although ONNX defines it to round down.
* ``Resize`` of operator sets 11 and 12 has an empty constant for scales or sizes that are not given; TVM takes it for
  given. Scales that give no whole size are refused but for aligned corners: ONNX Runtime computes positions from the
  scales, TVM from the sizes. So are ``antialias``, ``axes`` and a policy for the aspect ratio, which TVM does not read.
* ``Resize`` of other axes than the last ones, such as those of TensorFlow's images: TVM resizes the last ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from passsearch.dialects.refusal import refuse_single_corner, refuse_unread_resize


class Resize(onnx_frontend.Resize):  # type: ignore[misc]
    """Converter of Resize that takes an empty constant for an input that is left out."""

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        kept = [_unless_empty(value, params) for value in [*inputs, None, None, None][:4]]
        refuse_unread_resize(attr)
        # Aligned corners are at the ends of both images, whatever the scales.
        if attr.get("coordinate_transformation_mode") != b"align_corners":
            _refuse_fractions(kept, params)
        axes = _resized_axes(kept, params)
        if axes is None:
            raise NotImplementedError("scales or sizes that are known at run time only are not supported")
        rank = len(kept[0].ty.shape)
        is_usual = rank > 2 and 0 not in axes and 1 not in axes
        targets = _resized_sizes(kept, params)
        refuse_single_corner(attr, [targets[axis] for axis in (range(2, rank) if is_usual else axes)])
        if is_usual:
            return super()._impl_v18(bb, kept, attr, params)
        if not 2 < rank < 6 or len(axes) > rank - 2:
            raise NotImplementedError(f"{len(axes)} resized axes of {rank} are not supported")
        return cls._moved(bb, kept, attr, params, axes)

    @classmethod
    def _moved(cls, bb: Any, inputs: Any, attr: Any, params: Any, axes: Sequence[int]) -> Any:
        """Return the resized data, whose resized axes are the last ones meanwhile."""
        rank = len(inputs[0].ty.shape)
        order = [axis for axis in range(rank) if axis not in axes] + list(axes)
        order[2:] = sorted(order[2:])
        moved = bb.emit(relax.op.permute_dims(inputs[0], order))
        rest = [_reordered(value, order, params) for value in inputs[1:]]
        resized = bb.emit(super()._impl_v18(bb, [moved, *rest], attr, params))
        return relax.op.permute_dims(resized, [order.index(axis) for axis in range(rank)])


def known_numbers(value: Any, params: Any) -> Any:
    """Return the values of a constant or of a shape, ``None`` for others."""
    constant = value if value is None else onnx_frontend.get_constant(value, params)
    if isinstance(constant, GenericConst):
        return constant.value.numpy()
    return np.array([int(size) for size in constant.values]) if isinstance(constant, relax.ShapeExpr) else None


def _resized_sizes(inputs: Sequence[Any], params: Any) -> Any:
    """Return the sizes after a Resize whose scales or sizes are known, with fractions."""
    scales = known_numbers(inputs[2], params)
    before = [int(size) for size in inputs[0].ty.shape]
    return known_numbers(inputs[3], params) if scales is None else np.array(before) * scales


def _resized_axes(inputs: Sequence[Any], params: Any) -> list[int] | None:
    """Return the axes whose size a Resize changes, ``None`` where that is not known."""
    _, _, scales, sizes = inputs
    if (factors := known_numbers(scales, params)) is not None:
        return [axis for axis, factor in enumerate(factors) if factor != 1]
    if (targets := known_numbers(sizes, params)) is not None:
        return [axis for axis, size in enumerate(inputs[0].ty.shape) if int(size) != int(targets[axis])]
    return None


def _reordered(value: Any, order: Sequence[int], params: Any) -> Any:
    """Return a constant with one value for each axis, or its two ends, in another order of the axes."""
    if value is None:
        return None
    values = known_numbers(value, params)
    if values is None:
        raise NotImplementedError("a region that is known at run time only is not supported")
    parts = [part[list(order)] for part in values.reshape(-1, len(order))]
    return relax.const(np.concatenate(parts), str(values.dtype))


def _refuse_fractions(inputs: Sequence[Any], params: Any) -> None:
    scales = onnx_frontend.get_constant(inputs[2], params) if len(inputs) > 2 and inputs[2] is not None else None
    if isinstance(scales, GenericConst):
        sizes = np.array([int(size) for size in inputs[0].ty.shape]) * scales.value.numpy()
        # A float32 cannot hold most fractions, such as 1.6, but gives a size to within this.
        if np.abs(sizes - np.round(sizes)).max(initial=0) > 1e-3:
            raise NotImplementedError(
                "Operator Resize is not supported with scales that give no whole size; give it sizes, or such scales"
            )


def _unless_empty(value: Any, params: Any) -> Any:
    constant = value if value is None else onnx_frontend.get_constant(value, params)
    is_empty = isinstance(constant, GenericConst) and constant.value.numpy().size == 0
    return None if is_empty else value


class Upsample(onnx_frontend.Upsample):  # type: ignore[misc]
    """Converter of Upsample to a Resize that rounds down."""

    @classmethod
    def _impl_v7(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._impl_v9(bb, [inputs[0], relax.const(np.array(attr["scales"], "float32"))], attr, params)

    @classmethod
    def _impl_v9(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        settings = {
            "mode": attr.get("mode", b"nearest"),
            "coordinate_transformation_mode": b"asymmetric",
            "nearest_mode": b"floor",
        }
        return Resize._impl_v18(bb, [inputs[0], None, inputs[1], None], settings, params)


RESIZES: Mapping[str, Any] = {"Resize": Resize, "Upsample": Upsample}
"""The converters by operator."""
