"""The graph of a recurrent layer: one product for the inputs of all steps, and the call of the loops over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from passsearch.standalone.relax.cpu_schedules.cpu_pass import FUSES_WITH_NOTHING, SCHEDULED

from .cell import LANES, RECURRENCE, Recurrence
from .cpu_loops import cpu_function
from .loops import is_single, summed

BATCH_FIRST = [1, 0, 2]
"""Axes of a sequence, or of a state, in the layout in which the batch comes first."""


@dataclass(frozen=True)
class Weights:
    """The weights of a layer, as ONNX has them.

    Attributes:
        inputs: [directions, gates * hidden, inputs].
        states: [directions, gates * hidden, hidden].
        bias: That of the inputs, then that of the states: [directions, 2 * gates * hidden].
        peepholes: [directions, 3 * hidden].
    """

    inputs: Any
    states: Any
    bias: Any | None = None
    peepholes: Any | None = None


def recurrent_layer(
    bb: Any, recurrence: Recurrence, x: Any, weights: Weights, *, starts: Sequence[Any | None], lengths: Any | None
) -> list[Any]:
    """Return the hidden state after each step, [steps, directions, batch, hidden], and the last states.

    Args:
        bb: The block builder.
        recurrence: What is computed.
        x: The sequences, [steps, batch, inputs].
        weights: The weights; those that are constant are arranged here, others when the network runs.
        starts: First states, [directions, batch, hidden]; ``None`` for zeros.
        lengths: Lengths of the sequences, if they have their own.
    """
    steps, batch, width = x.ty.shape.values
    arranged = _Arrangement(bb, recurrence)
    if is_single(batch):
        x = bb.emit(relax.op.reshape(x, relax.ShapeExpr([steps, width])))
    product = bb.emit(relax.op.matmul(x, arranged.input_weights(weights.inputs)))
    if (bias := arranged.input_bias(weights.bias)) is not None:
        product = bb.emit(relax.op.add(product, bias))
    arguments = [product, *(arranged.state_weights(weights.states, gates) for gates in recurrence.phases)]
    if recurrence.resets_product:
        arguments.append(arranged.state_bias(weights.bias))
    if recurrence.has_peepholes:
        arguments.append(arranged.peepholes(weights.peepholes))
    if recurrence.has_lengths:
        arguments.append(bb.emit(relax.op.astype(lengths, "int32")))
    state = [recurrence.directions, batch, recurrence.hidden]
    zeros = [relax.op.zeros(relax.ShapeExpr(state), recurrence.dtype) for start in starts if start is None]
    if isinstance(batch, tirx.IntImm):
        zeros = [constant(np.zeros([int(size) for size in state], recurrence.dtype)) for _ in zeros]
    missing = iter(zeros)
    arguments += [bb.emit(next(missing)) if start is None else start for start in starts]
    shapes = [[steps, recurrence.directions, batch, recurrence.hidden], *(state for _ in starts)]
    types = [relax.TensorType(shape, recurrence.dtype) for shape in shapes]
    name = bb.add_func(recurrent_function(recurrence, steps, batch), recurrence.kind.lower())
    results = bb.emit(relax.call_tir(name, relax.Tuple(arguments), types))
    return [bb.emit(relax.TupleGetItem(results, place)) for place in range(len(types))]


def constant(array: Any) -> Any:
    """Return a constant of the array's own type; ``relax.const`` makes float32 of float64."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(array)))


def recurrent_function(recurrence: Recurrence, steps: Any, batch: Any) -> Any:
    """Return the function of loops that a layer calls, for any target but a GPU."""
    function = cpu_function(recurrence, steps, batch).with_attr("op_pattern", FUSES_WITH_NOTHING)
    return function.with_attr(RECURRENCE, recurrence.to_json()).with_attr(SCHEDULED, True)


class _Arrangement:
    """Puts weights into the order in which the loops read them."""

    def __init__(self, bb: Any, recurrence: Recurrence) -> None:
        self._bb, self._recurrence = bb, recurrence

    def input_weights(self, weights: Any) -> Any:
        """Return them as [inputs, directions * blocks * gates * lanes]."""
        each, width = self._recurrence, int(weights.ty.shape.values[-1])
        parts = self._reshape(weights, [each.directions, each.gates, each.hidden, width])
        blocks = self._in_blocks(parts, axis=2)
        return self._reshape(self._permute(blocks, [4, 0, 2, 1, 3]), [width, -1])

    def state_weights(self, weights: Any, gates: Sequence[int]) -> Any:
        """Return those of some gates as [directions, blocks, summed, gates, lanes]."""
        each = self._recurrence
        parts = self._reshape(weights, [each.directions, each.gates, each.hidden, each.hidden])
        own = self._part(parts, 1, gates[0], gates[-1] + 1)
        padded = self._pad(own, 3, summed(each))
        return self._permute(self._in_blocks(padded, axis=2), [0, 2, 4, 1, 3])

    def input_bias(self, bias: Any | None) -> Any | None:
        """Return the bias of the products of the inputs, that of the states included where it can be."""
        if bias is None:
            return None
        each = self._recurrence
        first, second = (self._part(self._biases(bias), 1, place, place + 1) for place in (0, 1))
        if each.resets_product:  # the last gate adds its own to a product
            second = self._pad(self._part(second, 2, 0, 2), 2, 3)
        total = self._change(first, second, function=lambda x, y: x + y, operator=relax.op.add)
        blocks = self._in_blocks(total, axis=3)
        return self._reshape(self._permute(blocks, [0, 1, 3, 2, 4]), [-1])

    def state_bias(self, bias: Any | None) -> Any:
        """Return the bias of the last gate's product with the state: [directions, blocks, lanes]."""
        each = self._recurrence
        if bias is None:
            return constant(np.zeros([each.directions, each.blocks, LANES], each.dtype))
        own = self._part(self._part(self._biases(bias), 1, 1, 2), 2, 2, 3)
        return self._reshape(self._in_blocks(own, axis=3), [each.directions, each.blocks, LANES])

    def peepholes(self, peepholes: Any) -> Any:
        """Return them as [directions, blocks, 3, lanes]."""
        each = self._recurrence
        parts = self._reshape(peepholes, [each.directions, 3, each.hidden])
        return self._permute(self._in_blocks(parts, axis=2), [0, 2, 1, 3])

    def _biases(self, bias: Any) -> Any:
        each = self._recurrence
        return self._reshape(bias, [each.directions, 2, each.gates, each.hidden])

    def _in_blocks(self, value: Any, axis: int) -> Any:
        """Return a value whose axis of units is split into blocks and lanes."""
        shape = [int(size) for size in value.ty.shape.values]
        padded = self._pad(value, axis, self._recurrence.blocks * LANES)
        return self._reshape(padded, [*shape[:axis], self._recurrence.blocks, LANES, *shape[axis + 1 :]])

    def _pad(self, value: Any, axis: int, size: int) -> Any:
        shape = [int(each) for each in value.ty.shape.values]
        if shape[axis] == size:
            return value
        widths = [(0, size - shape[axis] if place == axis else 0) for place in range(len(shape))]
        flat = [width for pair in widths for width in pair]
        return self._change(
            value, function=lambda array: np.pad(array, widths), operator=lambda tensor: relax.op.nn.pad(tensor, flat)
        )

    def _part(self, value: Any, axis: int, begin: int, end: int) -> Any:
        place = (slice(None),) * axis + (slice(begin, end),)
        return self._change(
            value,
            function=lambda array: array[place],
            operator=lambda tensor: relax.op.strided_slice(tensor, [axis], [begin], [end]),
        )

    def _reshape(self, value: Any, shape: Sequence[int]) -> Any:
        return self._change(
            value,
            function=lambda array: array.reshape(shape),
            operator=lambda tensor: relax.op.reshape(tensor, shape),
        )

    def _permute(self, value: Any, axes: Sequence[int]) -> Any:
        return self._change(
            value,
            function=lambda array: array.transpose(axes),
            operator=lambda tensor: relax.op.permute_dims(tensor, axes),
        )

    def _change(self, *values: Any, function: Callable[..., Any], operator: Callable[..., Any]) -> Any:
        """Return what a function gives for constants, or an operator for others."""
        if all(isinstance(value, GenericConst) for value in values):
            return constant(function(*(value.value.numpy() for value in values)))
        return self._bb.emit(operator(*values))
