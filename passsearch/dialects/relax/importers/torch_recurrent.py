"""Converters of PyTorch's LSTM, GRU and RNN, which would become a step of operators for each element of a sequence."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from passsearch.dialects.relax.importers.torch_parameters import parameters
from passsearch.dialects.relax.recurrence.cell import KINDS, Recurrence
from passsearch.dialects.relax.recurrence.layer import BATCH_FIRST, Weights, constant, recurrent_layer

_GATES: Mapping[str, Sequence[int]] = {"GRU": (1, 0, 2), "LSTM": (0, 3, 1, 2), "RNN": (0,)}
"""PyTorch's gates in ONNX's order."""

_OPERATORS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "gru.input": ("GRU", KINDS["GRU"].activations),
    "lstm.input": ("LSTM", KINDS["LSTM"].activations),
    "rnn_relu.input": ("RNN", ("Relu",)),
    "rnn_tanh.input": ("RNN", KINDS["RNN"].activations),
}
"""Kind and activations of each operator."""


def recurrent_converters(program: Any) -> dict[str, Callable[[Any, Any], Any]]:
    """Return the converters of a program's recurrent layers by operator; none unless all of them can be converted."""
    nodes = [node for node in program.graph.nodes if getattr(node.target, "__name__", "") in _OPERATORS]
    weights = parameters(program)
    if not nodes or not all(_fits(node, weights) for node in nodes):
        return {}
    return {
        name: functools.partial(_convert, kind=kind, activations=activations, weights=weights)
        for name, (kind, activations) in _OPERATORS.items()
    }


def without_steps(program: Any, table: Any) -> Any:
    """Return the program in PyTorch's core operators, but for recurrent layers."""
    for operator in [each for each in table if getattr(each, "__name__", "") in _OPERATORS]:
        del table[operator]
    return program.run_decompositions(table)


def _fits(node: Any, weights: Mapping[str, Any]) -> bool:
    _, _, parameters, has_biases, layers, dropout, trains, is_bidirectional, *_ = node.args
    count = layers * (2 if is_bidirectional else 1) * (4 if has_biases else 2)
    # An LSTM that projects its state has more weights; those that are computed are no inputs of the graph.
    return (
        len(parameters) == count
        and all(getattr(each, "name", "") in weights for each in parameters)
        and all(str(weights[each.name].dtype) != "torch.bfloat16" for each in parameters)  # numpy has no such type
        and not (trains and dropout)
    )


def _convert(
    node: Any, importer: Any, *, kind: str, activations: Sequence[str], weights: Mapping[str, Any]
) -> relax.Tuple:
    x, first, _, has_biases, layers, _, _, is_bidirectional, is_batch_first = importer.retrieve_args(node)
    bb, arrays = importer.block_builder, [weights[each.name].detach().cpu().numpy() for each in node.args[2]]
    reverse = (False, True) if is_bidirectional else (False,)
    firsts = list(first) if isinstance(first, tuple | list) else [first]
    states = [_parts(bb, state, layers) for state in firsts]
    x = bb.emit(relax.op.permute_dims(x, BATCH_FIRST)) if is_batch_first else x
    own = tuple(tuple((name, ()) for name in activations) for _ in reverse)
    hidden = arrays[1].shape[1]
    recurrence = Recurrence(kind, hidden, reverse, own, str(x.ty.dtype), resets_product=kind == "GRU")
    ends: list[list[Any]] = []
    per_layer = len(arrays) // layers
    for layer in range(layers):
        parts = _layer_weights(arrays[layer * per_layer :][:per_layer], kind, len(reverse), has_biases)
        starts = [parts_of_state[layer] for parts_of_state in states]
        whole, *last = recurrent_layer(bb, recurrence, x, parts, starts=starts, lengths=None)
        ends.append(last)
        steps, _, batch, _ = whole.ty.shape.values
        moved = bb.emit(relax.op.permute_dims(whole, [0, 2, 1, 3])) if is_bidirectional else whole
        x = bb.emit(relax.op.reshape(moved, relax.ShapeExpr([steps, batch, len(reverse) * hidden])))
    lasts = [_joined(bb, [last[place] for last in ends]) for place in range(len(states))]
    output = bb.emit(relax.op.permute_dims(x, BATCH_FIRST)) if is_batch_first else x
    return relax.Tuple([output, *lasts])


def _parts(bb: Any, state: Any, layers: int) -> list[Any]:
    """Return the first state of each layer."""
    if layers == 1:
        return [state]
    parts = bb.emit(relax.op.split(state, layers, axis=0))
    return [bb.emit(relax.TupleGetItem(parts, layer)) for layer in range(layers)]


def _joined(bb: Any, states: Sequence[Any]) -> Any:
    return states[0] if len(states) == 1 else bb.emit(relax.op.concat(states, axis=0))


def _layer_weights(arrays: Sequence[Any], kind: str, directions: int, has_biases: bool) -> Weights:
    """Return one layer's weights in ONNX's form from PyTorch's arrays, direction by direction."""
    count = 4 if has_biases else 2

    def joined(place: int) -> Any:
        return np.stack([_reordered(arrays[way * count + place], kind) for way in range(directions)])

    bias = constant(np.concatenate([joined(2), joined(3)], axis=1)) if has_biases else None
    return Weights(constant(joined(0)), constant(joined(1)), bias)


def _reordered(array: Any, kind: str) -> Any:
    gates = _GATES[kind]
    return array.reshape(len(gates), -1, *array.shape[1:])[list(gates)].reshape(array.shape)
