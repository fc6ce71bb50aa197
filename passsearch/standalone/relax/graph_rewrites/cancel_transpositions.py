"""Transpositions that cancel each other, with reshapes between them.

A transformer with convolutions makes images of its tokens and tokens of its images: a transposition and a reshape each
time. With channels last both images and tokens have the channels last, and the transpositions that ``ConvertLayout``
adds undo those of the network. TVM removes two neighbours, but none with a reshape between.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator

TRANSPOSITION, RESHAPE = "relax.permute_dims", "relax.reshape"


def CancelTranspositions() -> Any:  # noqa: N802
    """Return a pass that makes one reshape of transpositions and reshapes that leave all elements in their order."""
    clean = tvm.transform.Sequential([transform.CanonicalizeBindings(), transform.DeadCodeElimination()])

    def rewrite(module: Any, _context: Any) -> Any:
        writer = _Writer(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return clean(writer.builder_.finalize()) if writer.cancelled else module

    return tvm.transform.module_pass(rewrite, opt_level=0, name="CancelTranspositions")


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Reads from where elements have the same order, past all transpositions and reshapes.

    Attributes:
        cancelled: Number of calls that were replaced.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.cancelled = 0

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        source: Any = None
        moves: list[Any] = []
        each = call
        while _is_move(each):
            moves.insert(0, each)
            operand = each.args[0]
            has_transposition = any(move.op.name == TRANSPOSITION for move in moves)
            if has_transposition and keep_order(_shape(operand), [_as_move(move) for move in moves]):
                source = operand
            # An output of another dataflow block is computed from variables that exist in that block only.
            each = self.lookup_binding(operand) if isinstance(operand, relax.DataflowVar) else None
        if source is None:
            return call
        self.cancelled += 1
        return source if _shape(source) == _shape(call) else relax.op.reshape(source, _shape(call))


def _is_move(value: Any) -> bool:
    """Return True for a transposition or a reshape of a tensor of fixed sizes."""
    is_move = isinstance(value, relax.Call) and getattr(value.op, "name", "") in (TRANSPOSITION, RESHAPE)
    return is_move and None not in (_shape(value), _shape(value.args[0]))


def _shape(value: Any) -> tuple[int, ...] | None:
    """Return the shape of a tensor; ``None`` if a size is open or 0, which a reshape would take for another."""
    shape = getattr(value.ty, "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(size, tirx.IntImm) for size in shape.values):
        return None
    sizes = tuple(map(int, shape.values))
    return None if 0 in sizes else sizes


def _as_move(call: Any) -> tuple[bool, Sequence[int]]:
    """Return whether a call is a transposition, and its axes, or the shape that a reshape makes."""
    if call.op.name == RESHAPE:
        return False, _shape(call) or ()
    rank = call.args[0].ty.ndim
    axes = range(rank)[::-1] if call.attrs.axes is None else [int(axis) % rank for axis in call.attrs.axes]
    return True, axes


def keep_order(shape: Sequence[int] | None, moves: Sequence[tuple[bool, Sequence[int]]]) -> bool:
    """Return True if all elements are in the same order after some moves as before; False also where that is unclear.

    Args:
        shape: The shape before.
        moves: For each move whether it is a transposition, and its axes, or the shape that it makes.
    """
    factors = _Factors(shape or ())
    dimensions = [[number] for number in factors.order]
    for is_transposition, values in moves:
        if is_transposition:
            dimensions = [dimensions[axis] for axis in values]
        else:
            regrouped = factors.regroup([*itertools.chain(*dimensions)], values)
            if regrouped is None:
                return False
            dimensions = regrouped
    return factors.without_units(itertools.chain(*dimensions)) == factors.without_units(factors.order)


class _Factors:
    """Factors of the sizes of a tensor, by number; the elements' order is that of all factors.

    Attributes:
        order: Numbers of the factors as they stand in the tensor's first shape, outermost first.
    """

    def __init__(self, shape: Sequence[int]) -> None:
        self._sizes = list(shape)
        self.order = list(range(len(shape)))

    def without_units(self, numbers: Any) -> list[int]:
        """Return the factors that are larger than 1."""
        return [number for number in numbers if self._sizes[number] > 1]

    def regroup(self, numbers: list[int], shape: Sequence[int]) -> list[list[int]] | None:
        """Return factors as the dimensions of a shape; ``None`` if one ends where no factor can be split.

        Args:
            numbers: The factors, outermost first; those that span two dimensions are split, in ``order`` too.
            shape: The shape.
        """
        left, dimensions = list(numbers), []
        for size in shape:
            dimension: list[int] = []
            while (rest := size // math.prod(self._sizes[number] for number in dimension)) > 1:
                number = left.pop(0)
                if rest % self._sizes[number]:
                    if self._sizes[number] % rest:
                        return None
                    left.insert(0, self._split(number, rest))
                dimension.append(number)
            dimensions.append(dimension)
        return dimensions

    def _split(self, number: int, size: int) -> int:
        """Keep the outer part of a factor, of this size, under its number; return the number of the inner part."""
        inner = len(self._sizes)
        self._sizes.append(self._sizes[number] // size)
        self._sizes[number] = size
        self.order.insert(self.order.index(number) + 1, inner)
        return inner
