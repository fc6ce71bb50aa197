"""Converters of ``LSTM``, ``GRU`` and ``RNN``, which TVM's importer of Relax lacks.

Each becomes one step of operators for each element of the sequence.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend


class _Recurrent(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """The common part of LSTM, GRU and RNN, which differ in one step."""

    kind: str
    activations: tuple[bytes, ...]
    others: tuple[tuple[bytes, ...], ...] = ()
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
        usual = ((), *(times * each for each in (cls.activations, *cls.others) for times in (1, 2)))
        lengths, *rest = inputs
        found = [] if lengths is None else ["sequence lengths"]
        found += [] if all(value is None for value in rest) else ["peepholes"]
        found += [] if activations in usual else ["other activations than ONNX's defaults"]
        found += [name for name in ("clip", "input_forget", "layout") if attr.get(name)]
        if found:
            raise NotImplementedError(f"{' and '.join(found)} not supported; export the network without")

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


class RNN(_Recurrent):
    """Converter of RNN, by tanh, as ONNX's default, or by the largest of the sum and 0."""

    kind, activations, states = "RNN", (b"Tanh",), 1
    others = ((b"Relu",),)

    @classmethod
    def _step(
        cls, bb: Any, element: Any, state: Sequence[Any], parts: Sequence[Any], attr: Mapping[str, Any]
    ) -> list[Any]:
        weight, recurrence, bias = parts
        both = [None, None] if bias is None else _split(bb, bias, 2)
        sums = relax.op.add(_linear(bb, element, weight, both[0]), _linear(bb, state[0], recurrence, both[1]))
        has_relu = b"Relu" in attr.get("activations", ())
        return [bb.emit(relax.op.nn.relu(bb.emit(sums)) if has_relu else relax.op.tanh(bb.emit(sums)))]


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


RECURRENT: Mapping[str, Any] = {"GRU": GRU, "LSTM": LSTM, "RNN": RNN}
"""The converters by operator."""
