"""Converters of ONNX operators that TVM's importer of Relax lacks or gets wrong.

* ``LSTM`` and ``GRU`` are missing. Each becomes one step of operators for each element of the sequence.
* ``Slice`` before operator set 10 has its bounds as attributes, which TVM does not read.
* ``Upsample`` rounds like Resize with its defaults, although ONNX defines it to round down.
* ``Resize`` of operator sets 11 and 12 has an empty constant for scales or sizes that are not given; TVM takes it for
  given. Scales that give no whole size are refused: ONNX computes positions from the scales, TVM from the sizes. So are
  ``antialias``, ``axes`` and a policy for the aspect ratio, which TVM does not read.
* ``MaxPool`` with automatic padding: TVM rounds the size of SAME_LOWER down, ONNX up, and pads by a negative width if
  the kernel is smaller than the stride.
* ``ConvTranspose`` with ``output_shape``, which TVM does not read.
* ``TopK`` of operator set 10 has its number as an input; TVM takes 1.
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

from passsearch.dialects.refusal import refuse_unread_resize

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


class Resize(onnx_frontend.Resize):  # type: ignore[misc]
    """Converter of Resize that takes an empty constant for an input that is left out."""

    @classmethod
    def _impl_v18(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        kept = [_unless_empty(value, params) for value in inputs]
        _refuse_fractions(kept, params)
        refuse_unread_resize(attr)
        return super()._impl_v18(bb, kept, attr, params)


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
    """Converter of TopK with the number as an input from operator set 10 on."""

    @classmethod
    def _impl_v10(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        return cls._impl_v11(bb, inputs, attr, params)


class RoiAlign(onnx_frontend.RoiAlign):  # type: ignore[misc]
    """Converter of RoiAlign that moves boxes by half a pixel of the scaled image."""

    @classmethod
    def _impl(cls, bb: Any, inputs: Any, attr: Any, params: Any, default: Any) -> Any:
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


class _Recurrent(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The common part of LSTM and GRU, which differ in one step."""

    kind: str
    activations: tuple[bytes, ...]
    states: int

    @classmethod
    def _impl_v7(cls, bb: Any, inputs: Any, attr: Mapping[str, Any], params: Any) -> Any:
        arguments: list[Any] = [*inputs, None, None, None, None, None, None]
        sequence, weight, recurrence, bias, lengths, *start = arguments[:8]
        cls._refuse_unsupported(attr, [lengths, *start[cls.states :]])
        steps, batch, _ = (int(size) for size in sequence.ty.shape)
        elements = [_element(bb, sequence, index) for index in range(steps)]
        directions = _DIRECTIONS[attr.get("direction", b"forward")]
        zeros = relax.const(np.zeros((batch, attr["hidden_size"]), str(sequence.ty.dtype)))
        ends = []
        for index, order in enumerate(directions):
            parts = [None if part is None else _element(bb, part, index) for part in (weight, recurrence, bias)]
            state = [zeros if part is None else _element(bb, part, index) for part in start[: cls.states]]
            outputs = []
            for element in elements[::order]:
                state = cls._step(bb, element, state, parts, attr)
                outputs.append(state[0])
            ends.append((outputs[::order], state))
        # [steps, directions, batch, hidden], then every state as [directions, batch, hidden].
        whole = [_stack(bb, [outputs[step] for outputs, _ in ends]) for step in range(steps)]
        last = [_stack(bb, [state[number] for _, state in ends]) for number in range(cls.states)]
        return relax.Tuple([_stack(bb, whole), *last])

    @classmethod
    def _refuse_unsupported(cls, attr: Mapping[str, Any], inputs: Sequence[Any]) -> None:
        activations = tuple(attr.get("activations", ()))
        is_usual = activations in ((), cls.activations, 2 * cls.activations)
        options = [name for name in ("clip", "input_forget", "layout") if attr.get(name)]
        if not is_usual or options or any(value is not None for value in inputs):
            raise NotImplementedError(
                f"Operator {cls.kind} is not supported with sequence lengths, peepholes, other activations than "
                "ONNX's defaults, clip, input_forget or layout"
            )

    @classmethod
    def _step(
        cls, bb: Any, element: Any, state: Sequence[Any], parts: Sequence[Any], attr: Mapping[str, Any]
    ) -> list[Any]:
        raise NotImplementedError


class LSTM(_Recurrent):
    """Converter of LSTM: gates in the order input, output, forget, cell (ONNX's operator documentation)."""

    kind, activations, states = "LSTM", (b"Sigmoid", b"Tanh", b"Tanh"), 2

    @classmethod
    def _step(
        cls, bb: Any, element: Any, state: Sequence[Any], parts: Sequence[Any], attr: Mapping[str, Any]
    ) -> list[Any]:
        weight, recurrence, bias = parts
        both = [None, None] if bias is None else _split(bb, bias, 2)
        sums = bb.emit(relax.op.add(_linear(bb, element, weight, both[0]), _linear(bb, state[0], recurrence, both[1])))
        entry, output, forget, cell = _split(bb, sums, 4, axis=1)
        kept = relax.op.multiply(relax.op.sigmoid(forget), state[1])
        memory = bb.emit(relax.op.add(kept, relax.op.multiply(relax.op.sigmoid(entry), relax.op.tanh(cell))))
        return [bb.emit(relax.op.multiply(relax.op.sigmoid(output), relax.op.tanh(memory))), memory]


class GRU(_Recurrent):
    """Converter of GRU: gates in the order update, reset, hidden (ONNX's operator documentation)."""

    kind, activations, states = "GRU", (b"Sigmoid", b"Tanh"), 1

    @classmethod
    def _step(
        cls, bb: Any, element: Any, state: Sequence[Any], parts: Sequence[Any], attr: Mapping[str, Any]
    ) -> list[Any]:
        weights, recurrences = _split(bb, parts[0], 3), _split(bb, parts[1], 3)
        biases = 6 * [None] if parts[2] is None else _split(bb, parts[2], 6)
        of_input = [_linear(bb, element, *pair) for pair in zip(weights, biases[:3], strict=True)]
        update, reset = (
            bb.emit(
                relax.op.sigmoid(
                    relax.op.add(of_input[gate], _linear(bb, state[0], recurrences[gate], biases[3 + gate]))
                )
            )
            for gate in (0, 1)
        )
        if attr.get("linear_before_reset"):
            recalled = relax.op.multiply(reset, _linear(bb, state[0], recurrences[2], biases[5]))
        else:
            recalled = _linear(bb, bb.emit(relax.op.multiply(reset, state[0])), recurrences[2], biases[5])
        hidden = bb.emit(relax.op.tanh(relax.op.add(of_input[2], recalled)))
        # (1 - update) * hidden + update * state
        change = relax.op.multiply(update, relax.op.subtract(state[0], hidden))
        return [bb.emit(relax.op.add(hidden, change))]


_DIRECTIONS = {b"forward": (1,), b"reverse": (-1,), b"bidirectional": (1, -1)}
"""Order in which each direction reads the sequence."""


def _element(bb: Any, value: Any, index: int) -> Any:
    """Return one element of the first dimension, without that dimension."""
    part = relax.op.strided_slice(value, axes=[0], begin=[index], end=[index + 1])
    return bb.emit(relax.op.squeeze(part, [0]))


def _split(bb: Any, value: Any, count: int, *, axis: int = 0) -> list[Any]:
    """Return equal parts of a value along an axis."""
    parts = bb.emit(relax.op.split(value, count, axis=axis))
    return [bb.emit(relax.TupleGetItem(parts, index)) for index in range(count)]


def _linear(bb: Any, data: Any, weight: Any, bias: Any) -> Any:
    product = bb.emit(relax.op.matmul(data, bb.emit(relax.op.permute_dims(weight))))
    return product if bias is None else bb.emit(relax.op.add(product, bias))


def _stack(bb: Any, values: Sequence[Any]) -> Any:
    return bb.emit(relax.op.concat([bb.emit(relax.op.expand_dims(value, 0)) for value in values], axis=0))


CONVERTERS: Mapping[str, Any] = {
    "ConvTranspose": ConvTranspose,
    "GridSample": GridSample,
    "GRU": GRU,
    "LSTM": LSTM,
    "MaxPool": MaxPool,
    "Resize": Resize,
    "RoiAlign": RoiAlign,
    "Slice": Slice,
    "TopK": TopK,
    "Upsample": Upsample,
}
"""The converters by operator."""
