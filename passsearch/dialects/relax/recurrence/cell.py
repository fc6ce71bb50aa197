"""What a recurrent layer computes in one step, for one unit of its hidden state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from tvm import tirx

LANES = 16
"""Hidden units of a block. Their weights of one gate and one input are contiguous: one or two vectors of a CPU."""

RECURRENCE = "passsearch.recurrence"
"""Attribute of a function that computes a recurrent layer: its ``Recurrence`` as JSON."""

Activation: TypeAlias = tuple[str, tuple[float, ...]]
"""Name of an activation, as ONNX has it, with its parameters."""


@dataclass(frozen=True)
class Kind:
    """What tells the recurrent layers apart.

    Attributes:
        gates: Number of gates.
        states: Number of states: the hidden state, and the memory of an LSTM.
        activations: Usual activations.
    """

    gates: int
    states: int
    activations: tuple[str, ...]


KINDS: Mapping[str, Kind] = {
    "GRU": Kind(3, 1, ("Sigmoid", "Tanh")),
    "LSTM": Kind(4, 2, ("Sigmoid", "Tanh", "Tanh")),
    "RNN": Kind(1, 1, ("Tanh",)),
}


@dataclass(frozen=True)
class Recurrence:
    """The recurrent part of a layer.

    Attributes:
        kind: ``LSTM``, ``GRU`` or ``RNN``. Gates have ONNX's order: input, output, forget, cell; update, reset, hidden.
        hidden: Size of the hidden state.
        reverse: For each direction, whether it reads the sequence backwards.
        activations: The activations of each direction.
        dtype: Type of all tensors but the lengths.
        clip: Bound of what goes into the activations of gates; ``None`` for none.
        resets_product: True for a GRU that multiplies the product with the state by the reset gate, not the state.
        couples_gates: True for an LSTM that forgets as much as it takes in.
        has_lengths: True if the sequences of a batch have lengths of their own.
        has_peepholes: True for an LSTM whose gates see its memory.
    """

    kind: str
    hidden: int
    reverse: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    dtype: str = "float32"
    clip: float | None = None
    resets_product: bool = False
    couples_gates: bool = False
    has_lengths: bool = False
    has_peepholes: bool = False

    def to_json(self) -> str:
        """Return all attributes as text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Recurrence:
        """Return the value that ``to_json`` wrote."""
        fields = json.loads(text)
        activations = tuple(
            tuple((name, tuple(parameters)) for name, parameters in direction) for direction in fields["activations"]
        )
        return cls(**{**fields, "reverse": tuple(fields["reverse"]), "activations": activations})

    @property
    def gates(self) -> int:
        """Number of gates."""
        return KINDS[self.kind].gates

    @property
    def has_memory(self) -> bool:
        """Whether there is a memory beside the hidden state."""
        return KINDS[self.kind].states > 1

    @property
    def directions(self) -> int:
        """Number of directions."""
        return len(self.reverse)

    @property
    def blocks(self) -> int:
        """Number of blocks of units."""
        return -(-self.hidden // LANES)

    @property
    def wide(self) -> str:
        """Type of sums and states."""
        return "float32" if self.dtype in ("float16", "bfloat16") else self.dtype

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """Gates whose products with the state can be computed together; a reset state needs the reset gate first."""
        is_split = self.kind == "GRU" and not self.resets_product
        return ((0, 1), (2,)) if is_split else (tuple(range(self.gates)),)


def recurrences(module: Any) -> dict[str, Recurrence]:
    """Return the recurrent layers that a module's functions of loops compute, by the function's name."""
    texts = {name.name_hint: (function.attrs or {}).get(RECURRENCE) for name, function in module.functions_items()}
    found = {name: _parse(str(text)) for name, text in texts.items() if text is not None}
    return {name: recurrence for name, recurrence in found.items() if recurrence is not None}


def _parse(text: str) -> Recurrence | None:
    """Return the value of an attribute; ``None`` where it describes no layer, as in a file from elsewhere."""
    try:
        recurrence = Recurrence.from_json(text)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return recurrence if recurrence.kind in KINDS else None


class Cell:
    """The formulas of one unit of a layer (ONNX's operator documentation)."""

    def __init__(self, recurrence: Recurrence, direction: Any) -> None:
        self._recurrence, self._direction = recurrence, direction

    def rnn(self, total: Any) -> Any:
        """Return the hidden state."""
        return self._activate(0, total)

    def memory(self, sums: Sequence[Any], memory: Any, peepholes: Sequence[Any]) -> Any:
        """Return the memory of an LSTM from the sums of the gates input, forget and cell, and the memory before."""
        entry, forget, new = sums
        if peepholes:
            entry, forget = entry + peepholes[0] * memory, forget + peepholes[1] * memory

        def kept(gate: Any) -> Any:
            forgets = 1.0 - gate if self._recurrence.couples_gates else self._activate(0, forget)
            return forgets * memory + gate * self._activate(1, new)

        return _bind(self._activate(0, entry), kept)

    def output(self, total: Any, memory: Any, peepholes: Sequence[Any]) -> Any:
        """Return the hidden state of an LSTM from the sum of the output gate and the new memory."""
        total = total + peepholes[0] * memory if peepholes else total
        return self._activate(0, total) * self._activate(2, memory, clips=False)

    def gate(self, total: Any) -> Any:
        """Return the update or the reset gate of a GRU."""
        return self._activate(0, total)

    def renewed(self, total: Any, update: Any, hidden: Any) -> Any:
        """Return the hidden state of a GRU: (1 - update) * new + update * hidden."""
        return _bind(self._activate(1, total), lambda new: new + update * (hidden - new))

    def _activate(self, place: int, value: Any, *, clips: bool = True) -> Any:
        """Return the activation at a place, of a value that is clipped where the layer asks for that.

        ONNX Runtime clips the sums of gates, and not the memory before the last activation of an LSTM.
        """
        bound = self._recurrence.clip if clips else None
        if bound is not None:
            value = _clip(value, bound)
        own = [activations[place] for activations in self._recurrence.activations]
        if len(set(own)) == 1:
            return _apply(own[0], value)
        return _bind(value, lambda x: tirx.Select(self._direction == 0, _apply(own[0], x), _apply(own[1], x)))


def _apply(activation: Activation, value: Any) -> Any:
    name, parameters = activation
    return _bind(value, lambda x: FUNCTIONS[name](x, *(_like(each, x) for each in parameters)))


def _bind(value: Any, body: Callable[[Any], Any]) -> Any:
    """Return an expression that computes ``value`` once, however often ``body`` uses it."""
    variable = tirx.Var("x", str(value.ty))
    return tirx.Let(variable, value, body(variable))


def _clip(value: Any, bound: float) -> Any:
    # TVM compiles ``max(a, b)`` as ``a > b ? a : b``, so that NaN stays NaN only as the second operand.
    return tirx.min(_like(bound, value), tirx.max(_like(-bound, value), value))


def _like(number: float, value: Any) -> Any:
    return tirx.const(number, str(value.ty))


def _relu(x: Any) -> Any:
    return tirx.max(_like(0, x), x)


def _softplus(x: Any) -> Any:
    # The sum of a large number's exponential and 1 would be infinite.
    return _relu(x) + tirx.log(1.0 + tirx.exp(-tirx.abs(x)))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Affine": lambda x, alpha, beta: alpha * x + beta,
    "Elu": lambda x, alpha: tirx.Select(x < 0, alpha * (tirx.exp(x) - 1.0), x),
    "HardSigmoid": lambda x, alpha, beta: tirx.min(_like(1, x), _relu(alpha * x + beta)),
    "LeakyRelu": lambda x, alpha: tirx.Select(x < 0, alpha * x, x),
    "Relu": _relu,
    "ScaledTanh": lambda x, alpha, beta: alpha * tirx.tanh(beta * x),
    "Sigmoid": tirx.sigmoid,
    "Softplus": _softplus,
    "Softsign": lambda x: x / (1.0 + tirx.abs(x)),
    "Tanh": tirx.tanh,
    "ThresholdedRelu": lambda x, alpha: tirx.Select(x > alpha, x, _like(0, x)),
}
"""The activations by name; the further arguments are their parameters."""

PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
    "ThresholdedRelu": {"alpha": 1.0},
}
"""Parameters of activations with their usual values; those of all others have none."""
