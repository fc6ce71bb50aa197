"""Converters of ``LSTM``, ``GRU`` and ``RNN``, which TVM's importer of Relax lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

from passsearch.dialects.relax.recurrence.cell import FUNCTIONS, KINDS, PARAMETERS, Activation, Recurrence
from passsearch.dialects.relax.recurrence.layer import BATCH_FIRST, Weights, recurrent_layer

_DIRECTIONS = {b"forward": (False,), b"reverse": (True,), b"bidirectional": (False, True)}
"""Whether each direction reads the sequence backwards."""


class _Recurrent(onnx_frontend.OnnxOpConverter):  # type: ignore[misc]
    """Converter of a recurrent layer."""

    kind: str

    @classmethod
    def _impl_v7(cls, bb: Any, inputs: Any, attr: Mapping[str, Any], params: Any) -> Any:
        values = [_constant_or(value, params) for value in [*inputs, *[None] * 8][:8]]
        x, weights, states, bias, lengths, *starts, peepholes = values
        starts = starts[: KINDS[cls.kind].states]
        if is_batch_first := bool(attr.get("layout", 0)):
            x, *starts = (_permute(bb, value, BATCH_FIRST) for value in (x, *starts))
        recurrence = cls._recurrence(attr, int(states.ty.shape.values[-1]), lengths, peepholes, str(x.ty.dtype))
        own = Weights(weights, states, bias, peepholes)
        whole, *ends = recurrent_layer(bb, recurrence, x, own, starts=starts, lengths=lengths)
        if is_batch_first:
            whole, ends = _permute(bb, whole, [2, 0, 1, 3]), [_permute(bb, end, BATCH_FIRST) for end in ends]
        return relax.Tuple([whole, *ends])

    @classmethod
    def _recurrence(cls, attr: Mapping[str, Any], hidden: int, lengths: Any, peepholes: Any, dtype: str) -> Recurrence:
        reverse = _DIRECTIONS[attr.get("direction", b"forward")]
        bound = attr.get("clip")
        return Recurrence(
            cls.kind,
            hidden,
            reverse,
            _activations(cls.kind, attr, len(reverse)),
            dtype=dtype,
            clip=None if bound is None else float(bound),
            resets_product=cls.kind == "GRU" and bool(attr.get("linear_before_reset", 0)),
            couples_gates=bool(attr.get("input_forget", 0)),
            has_lengths=lengths is not None,
            has_peepholes=peepholes is not None,
        )


class LSTM(_Recurrent):
    """Converter of LSTM."""

    kind = "LSTM"


class GRU(_Recurrent):
    """Converter of GRU."""

    kind = "GRU"


class RNN(_Recurrent):
    """Converter of RNN."""

    kind = "RNN"


def _activations(kind: str, attr: Mapping[str, Any], directions: int) -> tuple[tuple[Activation, ...], ...]:
    """Return the activations of each direction; those that have parameters take the next of the lists."""
    usual = KINDS[kind].activations
    names = [name.decode() for name in attr.get("activations", ())] or [*usual] * directions
    if unknown := {name for name in names if name not in FUNCTIONS}:
        raise NotImplementedError(f"the activation {min(unknown)} is not supported; use {', '.join(FUNCTIONS)}")
    if len(names) not in (len(usual), len(usual) * directions):
        raise NotImplementedError(
            f"{len(names)} activations are not supported; {kind} has {len(usual)} for each of {directions} direction(s)"
        )
    if len(names) == len(usual):
        names *= directions
    values = {name: list(attr.get(f"activation_{name}", ())) for name in ("alpha", "beta")}

    def parameters(name: str) -> tuple[float, ...]:
        own = PARAMETERS.get(name, {})
        return tuple(float(values[each].pop(0)) if values[each] else own[each] for each in own)

    made = [(name, parameters(name)) for name in names]
    return tuple(tuple(made[start : start + len(usual)]) for start in range(0, len(made), len(usual)))


def _constant_or(value: Any, params: Any) -> Any:
    """Return the constant of a value, or a value that is computed."""
    constant = value if value is None else onnx_frontend.get_constant(value, params)
    return constant if isinstance(constant, GenericConst) else value


def _permute(bb: Any, value: Any, axes: Sequence[int]) -> Any:
    return value if value is None else bb.emit(relax.op.permute_dims(value, axes))


RECURRENT: Mapping[str, Any] = {"GRU": GRU, "LSTM": LSTM, "RNN": RNN}
"""The converters by operator."""
