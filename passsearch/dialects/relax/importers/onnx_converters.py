"""Converters of ONNX operators that TVM's importer of Relax lacks or gets wrong.

* ``Slice`` before operator set 10 has its bounds as attributes, which TVM does not read.
* ``RoiAlign`` by the largest sample is refused: ONNX Runtime weighs the samples before.
* ``Expand`` and ``ConstantOfShape`` to a shape that is known at run time only are refused, as is
  ``NonMaxSuppression`` by such numbers: TVM takes the shape as it is, where ONNX broadcasts, and numbers of its own.
* ``MaxPool`` with automatic padding: TVM rounds the size of SAME_LOWER down, ONNX up, and pads by a negative width if
  the kernel is smaller than the stride.
* ``ConvTranspose`` with ``output_shape``, which TVM does not read.
* ``TopK`` of operator set 10 has its number as an input; TVM takes 1.
* ``Split`` by ``num_outputs``, which TVM does not read, and into parts of size 0, which it does not build. ``Concat``
  leaves such parts out. TVM's split into one part is no tuple, which ``SplitToSequence`` needs.
* ``SequenceInsert`` at a negative place: TVM counts one place further.
* ``RoiAlign`` with half pixels: TVM moves the boxes before it scales them, ONNX afterwards.
* ``GridSample`` by cubic interpolation with a repeated border is refused: TVM repeats it at another place.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from passsearch.dialects.relax.importers.onnx_elements import ELEMENTS
from passsearch.dialects.relax.importers.onnx_norms import NORMS
from passsearch.dialects.relax.importers.onnx_recurrent import RECURRENT
from passsearch.dialects.relax.importers.onnx_resizes import RESIZES, known_numbers

_SAME = (b"SAME_UPPER", b"SAME_LOWER")


class Slice(onnx_frontend.Slice):  # type: ignore[misc]
    """Converter of Slice with bounds as attributes."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        axes = attr.get("axes", tuple(range(len(attr["starts"]))))
        bounds = [relax.const(np.array(values, "int64")) for values in (attr["starts"], attr["ends"], axes)]
        return cls._impl_v13(bb, [inputs[0], *bounds, None], attr, params)

    # TVM takes the largest version that is not above the network's; 10 is the first with bounds as inputs.
    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._impl_v13(bb, inputs, attr, params)


class MaxPool(onnx_frontend.MaxPool):  # type: ignore[misc]
    """Converter of MaxPool that computes automatic padding."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("auto_pad") in _SAME:
            windows = _windows(inputs[0], attr["kernel_shape"], attr)
            attr = _padded(
                attr, [max(0, (math.ceil(size / stride) - 1) * stride + span - size) for size, span, stride in windows]
            )
        return super()._impl_v1(bb, inputs, attr, params)


class ConvTranspose(onnx_frontend.ConvTranspose):  # type: ignore[misc]
    """Converter of ConvTranspose that computes the padding for a given size of the output (ONNX's documentation)."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if outputs := attr.get("output_shape"):
            windows = _windows(inputs[0], [int(size) for size in inputs[1].ty.shape.values[2:]], attr)
            extras, outputs = attr.get("output_padding", [0] * len(windows)), outputs[-len(windows) :]
            widths = [
                stride * (size - 1) + span + extra - output
                for (size, span, stride), extra, output in zip(windows, extras, outputs, strict=True)
            ]
            if min(widths) < 0:
                raise NotImplementedError(
                    "Operator ConvTranspose is not supported with an output_shape larger than without padding; "
                    "give it output_padding"
                )
            attr = _padded(attr, widths)
        return super()._impl_v1(bb, inputs, attr, params)


def _windows(data: Any, kernel: Sequence[int], attr: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Return by axis the size of the data, the length of the dilated kernel, and the stride."""
    sizes = list(data.ty.shape.values[2:])
    if not all(isinstance(size, tirx.IntImm) for size in sizes):
        raise NotImplementedError("Automatic padding is not supported with open sizes; give it pads")
    ones = [1] * len(kernel)
    columns = zip(sizes, kernel, attr.get("dilations", ones), attr.get("strides", ones), strict=True)
    return [(int(size), (length - 1) * dilation + 1, stride) for size, length, dilation, stride in columns]


def _padded(attr: Mapping[str, Any], widths: Sequence[int]) -> dict[str, Any]:
    """Return attributes with padding of these widths in place of what it was computed from.

    Of an odd width, the side after the axis gets one more for SAME_UPPER, else the side before it.
    """
    smaller, larger = [width // 2 for width in widths], [width - width // 2 for width in widths]
    pads = [*smaller, *larger] if attr.get("auto_pad") == b"SAME_UPPER" else [*larger, *smaller]
    kept = {name: value for name, value in attr.items() if name not in ("auto_pad", "output_shape")}
    return {**kept, "pads": pads}


class TopK(onnx_frontend.TopK):  # type: ignore[misc]
    """Converter of TopK with the number as an input from operator set 10 on, for types that TVM sorts."""

    @classmethod
    def get_converter(cls, opset: int) -> Any:
        """Return the function that converts a node."""
        convert = super().get_converter(opset)

        def converted(bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
            if str(inputs[0].ty.dtype).startswith("u"):
                raise NotImplementedError(f"elements of {inputs[0].ty.dtype} are not supported; cast them to int64")
            return convert(bb, inputs, attr, params)

        return converted

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._impl_v11(bb, inputs, attr, params)


class RoiAlign(onnx_frontend.RoiAlign):  # type: ignore[misc]
    """Converter of RoiAlign that moves boxes by half a pixel of the scaled image."""

    @classmethod
    def _impl(cls, bb: Any, inputs: Any, attr: Any, params: Any, default: Any) -> Any:
        if attr.get("mode") == b"max":
            raise NotImplementedError("the mode max is not supported; use avg")
        mode = attr.get("coordinate_transformation_mode", default)
        if mode in (b"half_pixel", "half_pixel"):
            # TVM moves by half a pixel of the unscaled image; this makes up for it.
            rest = 0.5 - 0.5 / attr.get("spatial_scale", 1.0)
            moved = bb.emit(relax.op.add(inputs[1], relax.const(rest, str(inputs[1].ty.dtype))))
            inputs = [inputs[0], moved, inputs[2]]
        return super()._impl(bb, inputs, attr, params, default)


class GridSample(onnx_frontend.GridSample):  # type: ignore[misc]
    """Converter of GridSample that refuses what TVM computes in another way."""

    @classmethod
    def _impl_v16(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if attr.get("mode") in (b"cubic", b"bicubic") and attr.get("padding_mode") == b"border":
            raise NotImplementedError(
                "Operator GridSample is not supported with cubic interpolation and a repeated border; "
                "use another padding_mode"
            )
        return super()._impl_v16(bb, inputs, attr, params)


class Expand(onnx_frontend.Expand):  # type: ignore[misc]
    """Converter of Expand to a constant shape."""

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        _refuse_unknown(inputs[1], params, "a shape")
        return super()._impl_v13(bb, inputs, attr, params)


class ConstantOfShape(onnx_frontend.ConstantOfShape):  # type: ignore[misc]
    """Converter of ConstantOfShape of a constant shape."""

    @classmethod
    def _impl_v9(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        _refuse_unknown(inputs[0], params, "a shape")
        return super()._impl_v9(bb, inputs, attr, params)


class NonMaxSuppression(onnx_frontend.NonMaxSuppression):  # type: ignore[misc]
    """Converter of NonMaxSuppression by constant numbers, with ONNX's defaults."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        most, overlap, score = [*list(inputs)[2:], None, None, None][:3]
        for value in (most, overlap, score):
            if value is not None:
                _refuse_unknown(value, params, "a number")
        # TVM also removes boxes that overlap as much as the limit; ONNX removes those that overlap more.
        limit = np.float32(0) if overlap is None else known_numbers(overlap, params).reshape(()).astype("float32")
        numbers = [
            relax.const(0 if most is None else int(known_numbers(most, params).item()), "int64"),
            relax.const(np.nextafter(limit, np.float32(np.inf)), "float32"),
            relax.const(np.finfo("float32").min, "float32") if score is None else score,
        ]
        return super()._impl_v10(bb, [inputs[0], inputs[1], *numbers], attr, params)


class Split(onnx_frontend.Split):  # type: ignore[misc]
    """Converter of Split into a number of parts, of which the last one may be smaller, and of constants."""

    @classmethod
    def _impl_v1(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        parts = _with_empty_parts(bb, inputs[0], attr.get("split"), attr)
        return _constant_parts(super()._impl_v1(bb, inputs, attr, params)) if parts is None else parts

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        parts = _with_empty_parts(bb, inputs[0], known_numbers(inputs[1], params), attr)
        return _constant_parts(super()._impl_v13(bb, inputs, attr, params)) if parts is None else parts

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        count = attr.get("num_outputs")
        if count is None or inputs[1] is not None:
            return cls._impl_v13(bb, inputs, attr, params)
        shape, axis = inputs[0].ty.shape, attr.get("axis", 0)
        part = -(-int(shape[axis % len(shape)]) // count)
        return _constant_parts(relax.op.split(inputs[0], [part * place for place in range(1, count)], axis))


def _constant_parts(split: Any) -> Any:
    """Return the parts of a constant, which no pass of TVM evaluates; a split of data as it is."""
    if not isinstance(split, relax.Call) or not isinstance(split.args[0], GenericConst):
        return split
    cuts = split.attrs.indices_or_sections
    places = int(cuts) if isinstance(cuts, tirx.IntImm) else [int(place) for place in cuts]
    arrays = np.split(split.args[0].value.numpy(), places, int(split.attrs.axis))
    # Without a type, TVM narrows 64 bits to 32.
    parts = [relax.const(np.ascontiguousarray(part), str(part.dtype)) for part in arrays]
    return parts[0] if len(parts) == 1 else relax.Tuple(parts)  # TVM's split into one part is no tuple, either


def _with_empty_parts(bb: Any, data: Any, sizes: Any, attr: Mapping[str, Any]) -> Any:
    """Return the parts of data, ``None`` where the sizes are not known or none is 0."""
    # TVM refuses cuts that do not ascend, but only when it builds.
    if sizes is None or np.min(sizes, initial=1) > 0:
        return None
    axis, whole, full = attr.get("axis", 0), [int(size) for size in data.ty.shape], [size for size in sizes if size]
    kept = iter([data] if len(full) == 1 else _parts(bb, data, full, axis))
    parts = [next(kept) if size else _empty(data, whole, axis) for size in sizes]
    return parts[0] if len(parts) == 1 else relax.Tuple(parts)  # as TVM's split into one part


def _parts(bb: Any, data: Any, sizes: Any, axis: int) -> list[Any]:
    parts = bb.emit(relax.op.split(data, np.cumsum(sizes)[:-1].tolist(), axis))
    return [bb.emit(relax.TupleGetItem(parts, place)) for place in range(len(sizes))]


def _empty(data: Any, shape: Sequence[int], axis: int) -> Any:
    """Return a tensor of these sizes, but without elements along an axis."""
    sizes = [0 if place == axis % len(shape) else size for place, size in enumerate(shape)]
    return relax.const(np.zeros(sizes, str(data.ty.dtype)))


class SplitToSequence(onnx_frontend.SplitToSequence):  # type: ignore[misc]
    """Converter of SplitToSequence that makes a sequence of a single part, too, whose size may be in a list."""

    @classmethod
    def _impl_v11(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        given = list(inputs) if len(inputs) > 1 and inputs[1] is not None else list(inputs)[:1]
        axis, is_kept = attr.get("axis", 0), attr.get("keepdims", 1) or len(given) > 1
        sizes = known_numbers(given[1], params) if len(given) > 1 else np.array(1)
        if sizes is None or sizes.size > 1:
            return super()._impl_v11(bb, given, attr, params)
        size = given[0].ty.shape[axis]
        whole, part = int(size) if isinstance(size, tirx.IntImm) else None, int(sizes.item())
        if sizes.shape and part != whole:
            raise NotImplementedError(f"a part of {part} is not the whole of axis {axis}, {size}")
        if whole is None or not 0 < whole <= part:
            return super()._impl_v11(bb, given, attr, params)
        return relax.Tuple([given[0] if is_kept else bb.emit(relax.op.squeeze(given[0], [axis]))])


class Concat(onnx_frontend.Concat):  # type: ignore[misc]
    """Converter of Concat that leaves out tensors without elements, such as the rest that a split left."""

    @classmethod
    def _impl_v13(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        values = list(inputs)
        kept = [value for value in values if not _is_empty(value, attr.get("axis", 0))]
        if len(kept) == len(values) or not kept:
            return super()._impl_v13(bb, inputs, attr, params)
        return kept[0] if len(kept) == 1 else super()._impl_v13(bb, kept, attr, params)


def _is_empty(value: Any, axis: int) -> bool:
    shape = getattr(getattr(value, "ty", None), "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not -len(shape.values) <= axis < len(shape.values):
        return False
    size = shape.values[axis]
    return isinstance(size, tirx.IntImm) and int(size) == 0


class MaxUnpool(onnx_frontend.MaxUnpool):  # type: ignore[misc]
    """Converter of MaxUnpool to the size that follows from the windows."""

    @classmethod
    def _impl_v9(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        if len(inputs) > 2 and inputs[2] is not None:
            raise NotImplementedError("an output shape is not supported; leave it out")
        return super()._impl_v9(bb, inputs, attr, params)


class SequenceInsert(onnx_frontend.SequenceInsert):  # type: ignore[misc]
    """Converter of SequenceInsert that counts a negative place from the end, as Python does."""

    @classmethod
    def _impl_v11(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        place = inputs[2] if len(inputs) > 2 else None
        if isinstance(place, GenericConst) and place.value.numpy() < 0:
            place = relax.const(int(place.value.numpy()) + len(inputs[0]), "int64")
        return super()._impl_v11(bb, [*list(inputs)[:2], *([] if place is None else [place])], attr, params)


def _refuse_unknown(value: Any, params: Any, what: str) -> None:
    if not isinstance(onnx_frontend.get_constant(value, params), GenericConst | relax.ShapeExpr):
        raise NotImplementedError(f"{what} that is known at run time only is not supported; make it a constant")


CONVERTERS: Mapping[str, Any] = {
    **ELEMENTS,
    **NORMS,
    **RECURRENT,
    **RESIZES,
    "Concat": Concat,
    "ConstantOfShape": ConstantOfShape,
    "ConvTranspose": ConvTranspose,
    "Expand": Expand,
    "GridSample": GridSample,
    "MaxPool": MaxPool,
    "MaxUnpool": MaxUnpool,
    "NonMaxSuppression": NonMaxSuppression,
    "RoiAlign": RoiAlign,
    "SequenceInsert": SequenceInsert,
    "Slice": Slice,
    "Split": Split,
    "SplitToSequence": SplitToSequence,
    "TopK": TopK,
}
"""The converters by operator."""
