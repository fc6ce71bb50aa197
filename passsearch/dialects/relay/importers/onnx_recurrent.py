"""Converters of ONNX's RNN, LSTM and GRU, one step of operators for each element of the sequence.

TVM's converters read a reverse sequence without giving the outputs back in the order of the sequence, and read neither
``clip`` nor, but for GRU, the lengths of sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import relay
from tvm.relay.frontend.common import infer_shape

from passsearch.dialects.relay.importers.local_inference import dtype_of

Converter: TypeAlias = Callable[[Any, Any, Any], Any]
Activation: TypeAlias = Callable[[Any], Any]

_DIRECTIONS = {b"forward": (1,), b"reverse": (-1,), b"bidirectional": (1, -1)}
"""Order in which each direction reads the sequence."""

_PARAMETERS: Mapping[bytes, tuple[str, ...]] = {
    b"Affine": ("alpha", "beta"),
    b"Elu": ("alpha",),
    b"HardSigmoid": ("alpha", "beta"),
    b"LeakyRelu": ("alpha",),
    b"ScaledTanh": ("alpha", "beta"),
    b"ThresholdedRelu": ("alpha",),
}
"""Parameters of activations; those of all others have none."""


@dataclass(frozen=True)
class _Cell:
    """One direction of a recurrent layer.

    Attributes:
        recurrence: The matrix of all gates by which the hidden state is multiplied.
        recurrent_bias: Its bias; ``None`` if it has none, or if it is a part of the products with the sequence.
        peepholes: Factors of the memory for the gates input, output and forget of an LSTM.
        activations: The activations, clipped if the network asks for that.
        resets_product: True for a GRU that multiplies the product with the state by the reset gate, and not the state.
    """

    recurrence: Any
    recurrent_bias: Any
    peepholes: Sequence[Any]
    activations: Sequence[Activation]
    resets_product: bool


Step: TypeAlias = Callable[[_Cell, Any, Sequence[Any]], list[Any]]


@dataclass(frozen=True)
class _Kind:
    """What tells the recurrent layers apart."""

    step: Step
    gates: int
    states: int
    activations: tuple[bytes, ...]


def recurrent(name: str, opset: int, table: Callable[[int], Mapping[str, Converter]]) -> Converter:
    """Return the converter of a recurrent layer.

    Args:
        name: The operator.
        opset: The operator set.
        table: Returns the converters of an operator set; those of activations are taken from it.
    """
    kind = _KINDS[name]

    def convert(inputs: Any, attr: Any, _: Any) -> Any:
        data, weights, recurrences, biases, lengths, *start = (inputs[number] for number in range(8))
        axes = [1, 0, 2]
        if layout := attr.get("layout", 0):
            data = relay.transpose(data, axes)
            start = [None if part is None else relay.transpose(part, axes) for part in start[:2]] + start[2:]
        order = _DIRECTIONS[attr.get("direction", b"forward")]
        activations = _activations(kind, attr, len(order), lambda each: table(opset)[each])
        steps, batch, depth = infer_shape(data)
        rows = relay.reshape(data, (steps * batch, depth))
        masks = None if lengths is None else _masks(lengths, steps, data)
        ends = []
        for index, stride in enumerate(order):
            parts = [None if part is None else _part(part, index) for part in (weights, recurrences, biases, start[2])]
            cell, bias = _cell(kind, parts, attr, activations[index])
            size = infer_shape(parts[1])[1]
            zeros = relay.zeros((batch, size), dtype_of(data))
            state = [zeros if part is None else _part(part, index) for part in start[: kind.states]]
            ends.append(_run(kind.step, cell, _products(rows, parts[0], bias, (steps, batch)), state, masks, stride))
        # [steps, directions, batch, hidden], then every state as [directions, batch, hidden].
        whole = relay.stack([relay.stack(outputs, axis=0) for outputs, _ in ends], axis=1)
        last = [relay.stack([state[number] for _, state in ends], axis=0) for number in range(kind.states)]
        if layout:
            whole, last = relay.transpose(whole, [2, 0, 1, 3]), [relay.transpose(each, axes) for each in last]
        return relay.expr.TupleWrapper(relay.Tuple([whole, *last]), 1 + kind.states)

    return convert


def _part(value: Any, index: int) -> Any:
    """Return one direction of a value, whose first dimension counts them."""
    return relay.squeeze(relay.strided_slice(value, begin=[index], end=[index + 1], axes=[0]), axis=[0])


def _cell(kind: _Kind, parts: Sequence[Any], attr: Any, activations: Sequence[Activation]) -> tuple[_Cell, Any]:
    """Return a direction, and the bias of the products with its sequence."""
    _, recurrence, biases, peepholes = parts
    of_input, of_state = (None, None) if biases is None else relay.split(biases, 2)
    resets_product = bool(kind.step is _gru_step and attr.get("linear_before_reset", 0))
    if not resets_product and of_input is not None:
        of_input, of_state = relay.add(of_input, of_state), None
    peeps = [None] * 3 if peepholes is None else list(relay.split(peepholes, 3))
    return _Cell(recurrence, of_state, peeps, activations, resets_product), of_input


def _products(rows: Any, weight: Any, bias: Any, sizes: tuple[int, int]) -> list[Any]:
    """Return the products of all elements with the weights of all gates, which are one product for the sequence."""
    product = _linear(rows, weight, bias)
    steps, batch = sizes
    if steps == 1:
        return [product]
    return [relay.squeeze(each, axis=[0]) for each in relay.split(relay.reshape(product, (steps, batch, -1)), steps)]


def _run(step: Step, cell: _Cell, products: list[Any], state: list[Any], masks: Any, stride: int) -> Any:
    """Return the output of each element in the order of the sequence, and the last state."""
    outputs: list[Any] = []
    for number in range(len(products))[::stride]:
        after = step(cell, products[number], state)
        if masks is not None:
            # A sequence that has ended keeps its state; its outputs are zeros.
            after = [relay.where(masks[number], new, old) for new, old in zip(after, state, strict=True)]
            outputs.append(relay.where(masks[number], after[0], relay.zeros_like(after[0])))
        else:
            outputs.append(after[0])
        state = after
    return outputs[::stride], state


def _masks(lengths: Any, steps: int, data: Any) -> list[Any]:
    """Return for each step a column that tells which sequences of the batch have such an element."""
    dtype = dtype_of(lengths)
    column = relay.expand_dims(lengths, axis=1)
    return [relay.less(relay.const(number, dtype), column) for number in range(steps)]


def _activations(
    kind: _Kind, attr: Any, directions: int, converter: Callable[[str], Converter]
) -> list[list[Activation]]:
    """Return the activations of each direction."""
    names = list(attr.get("activations", kind.activations * directions))
    count = len(kind.activations)
    if len(names) == count:
        names *= directions
    values = {name: list(attr.get(f"activation_{name}", ())) for name in ("alpha", "beta")}
    bound = attr.get("clip")

    def activation(name: bytes, number: int) -> Activation:
        settings = {each: values[each].pop(0) for each in _PARAMETERS.get(name, ()) if values[each]}

        def apply(value: Any) -> Any:
            # ONNX Runtime clips the sums of gates, and not the memory before the last activation of an LSTM.
            bounded = value if bound is None or number == 2 else relay.clip(value, -float(bound), float(bound))
            return converter(name.decode())([bounded], dict(settings), {})

        return apply

    made = [activation(name, place % count) for place, name in enumerate(names)]
    return [made[start : start + count] for start in range(0, len(made), count)]


def _linear(data: Any, weight: Any, bias: Any) -> Any:
    product = relay.nn.dense(data, weight)
    return product if bias is None else relay.nn.bias_add(product, bias)


def _rnn_step(cell: _Cell, product: Any, state: Sequence[Any]) -> list[Any]:
    return [cell.activations[0](product + _linear(state[0], cell.recurrence, cell.recurrent_bias))]


def _lstm_step(cell: _Cell, product: Any, state: Sequence[Any]) -> list[Any]:
    """Return hidden state and memory; gates in the order input, output, forget, cell (ONNX's documentation)."""
    hidden, memory = state
    sums = product + _linear(hidden, cell.recurrence, cell.recurrent_bias)
    entry, output, forget, new = relay.split(sums, 4, axis=1)
    of_entry, of_output, of_forget = cell.peepholes
    gate, tanh, last = cell.activations
    kept = gate(_peep(forget, of_forget, memory)) * memory
    after = kept + gate(_peep(entry, of_entry, memory)) * tanh(new)
    return [gate(_peep(output, of_output, after)) * last(after), after]


def _peep(value: Any, factor: Any, memory: Any) -> Any:
    return value if factor is None else value + factor * memory


def _gru_step(cell: _Cell, product: Any, state: Sequence[Any]) -> list[Any]:
    """Return the hidden state; gates in the order update, reset, hidden (ONNX's documentation)."""
    (hidden,) = state
    gate, tanh = cell.activations
    update_input, reset_input, new_input = relay.split(product, 3, axis=1)
    if cell.resets_product:
        recalled = _linear(hidden, cell.recurrence, cell.recurrent_bias)
        update_state, reset_state, new_state = relay.split(recalled, 3, axis=1)
        update, reset = gate(update_input + update_state), gate(reset_input + reset_state)
        new = tanh(new_input + reset * new_state)
    else:
        update_part, reset_part, new_part = relay.split(cell.recurrence, 3)
        update = gate(update_input + relay.nn.dense(hidden, update_part))
        reset = gate(reset_input + relay.nn.dense(hidden, reset_part))
        new = tanh(new_input + relay.nn.dense(reset * hidden, new_part))
    # (1 - update) * new + update * state
    return [new + update * (hidden - new)]


_KINDS = {
    "GRU": _Kind(_gru_step, 3, 1, (b"Sigmoid", b"Tanh")),
    "LSTM": _Kind(_lstm_step, 4, 2, (b"Sigmoid", b"Tanh", b"Tanh")),
    "RNN": _Kind(_rnn_step, 1, 1, (b"Tanh",)),
}
