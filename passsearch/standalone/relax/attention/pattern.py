"""The attentions of a network: two products with a softmax between them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from .loops import BINARY, LANES, MOST_FEW_ROWS, RESHAPE, ROWS, SCORE, SELECTION, Operator

REPEATED_AXES = 4
"""Axes of heads that are repeated, at least: the heads, how often, the columns and the depth."""


@dataclass(frozen=True)
class Attention:
    """An attention that one function can compute.

    Attributes:
        result: The variable of its result.
        query: Operand of the shape [..., rows, depth].
        keys: Operand of the shape [..., depth, columns].
        values: Operand of the shape [..., columns, width].
        operators: What happens between the first product and the softmax.
        replaces_nan: True if a row without weights has the result 0.
        group: Heads of the query, the last of its leading axes, that share a head of keys and values.
        has_rows_of_keys: True for keys of the shape [..., columns, depth].
    """

    result: Any
    query: Any
    keys: Any
    values: Any
    operators: tuple[Operator, ...]
    replaces_nan: bool
    group: int = 1
    has_rows_of_keys: bool = False

    @property
    def columns(self) -> int:
        """Number of columns of scores."""
        return sizes(self.values)[-2]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of query, keys and values."""
        return [sizes(each) for each in (self.query, self.keys, self.values)]


def find_attentions(module: Any) -> list[Attention]:
    """Return the attentions of a module, function by function in the order of their names."""
    functions = {name.name_hint: each for name, each in module.functions_items() if isinstance(each, relax.Function)}
    return [attention for name in sorted(functions) for attention in _of_function(functions[name])]


def _of_function(function: Any) -> Iterator[Attention]:
    blocks = function.body.blocks if isinstance(function.body, relax.SeqExpr) else []
    uses: Counter[Any] = Counter()

    def count(variable: Any) -> None:
        uses[variable] += 1

    values = (binding.value for block in blocks for binding in block.bindings)
    for expression in (*values, getattr(function.body, "body", function.body)):
        tvm_ffi.structural_walk(expression, (tvm.ir.Var, count))
    # One block at a time, because a block cannot read what another keeps for itself.
    for block in blocks:
        yield from _Block(block, uses).attentions()


class _Block:
    """The bindings of one block, with the number of uses of every variable in its function."""

    def __init__(self, block: Any, uses: Counter[Any]) -> None:
        self._values = {each.var: each.value for each in block.bindings if isinstance(each, relax.VarBinding)}
        self._uses = uses

    def attentions(self) -> Iterator[Attention]:
        for variable in self._values:
            attention = self._attention(variable)
            if attention is not None and _fits(attention := self._shared(attention)):
                yield attention

    def _attention(self, result: Any) -> Attention | None:
        if (operands := self._operands(result, "relax.matmul")) is None:
            return None
        weights, values = operands
        softmax, replaces_nan = self._without_selection(weights)
        scores = self._operands(softmax, "relax.nn.softmax", uses=2 if replaces_nan else 1)
        if scores is None or int(self._values[softmax].attrs.axis) not in (-1, len(sizes(softmax)) - 1):
            return None
        if str(softmax.ty.dtype) != "float32":
            return None  # products can have results of another type than their operands
        found = self._product(scores[0])
        if found is None:
            return None
        query, keys, operators = found
        return Attention(result, query, keys, values, tuple(operators), replaces_nan)

    def _shared(self, attention: Attention) -> Attention:
        """Return an attention that reads keys and values before each is repeated for the heads of a group.

        One of few rows reads the keys before they are transposed, too.
        """
        keys = self._operands(attention.keys, "relax.permute_dims")
        rank = len(sizes(attention.keys))
        if keys is None or rank < 2 or not _swaps_last(self._values[attention.keys].attrs.axes, rank):
            return attention
        groups = [self._repeated(each) for each in (keys[0], attention.values)]
        shared, values = groups if groups[0][1] == groups[1][1] else ((keys[0], 1), (attention.values, 1))
        has_few_rows = sizes(attention.query)[-2:-1] < (ROWS,)
        if shared[1] == 1 and not has_few_rows:
            return attention
        return replace(attention, keys=shared[0], values=values[0], group=shared[1], has_rows_of_keys=True)

    def _repeated(self, variable: Any) -> tuple[Any, int]:
        """Return the tensor whose heads, the third axis from the end, are repeated one by one, and how often."""
        shape = sizes(variable)
        repeated = (self._operands(variable, RESHAPE) or (None,))[0]
        if repeated is None or len(sizes(repeated)) < REPEATED_AXES:
            return variable, 1
        single = (self._operands(repeated, "relax.broadcast_to") or (None,))[0]
        added = self._operands(single, "relax.expand_dims") or self._operands(single, RESHAPE) or (None,)
        *leading, heads, times = sizes(repeated)[:-2]
        own = (*leading, heads, *shape[-2:])
        is_found = (
            shape == (*leading, heads * times, *shape[-2:])
            and sizes(repeated) == (*leading, heads, times, *shape[-2:])
            and sizes(single) == (*leading, heads, 1, *shape[-2:])
            and sizes(added[0]) == own
        )
        return (added[0], times) if is_found else (variable, 1)

    def _without_selection(self, weights: Any) -> tuple[Any, bool]:
        """Return the weights before a selection that replaces NaN by 0, and whether there is one.

        PyTorch exports it for rows of which everything is masked out.
        """
        condition, zero, replaced = self._operands(weights, SELECTION, uses=1) or (None, None, None)
        (checked,) = self._operands(condition, "relax.isnan", uses=1) or (None,)
        is_found = checked is not None and checked.same_as(replaced) and _number(zero) == 0
        return (replaced, True) if is_found else (weights, False)

    def _product(self, scores: Any) -> tuple[Any, Any, list[Operator]] | None:
        """Return the operands of the product that scores come from, and the operators between; ``None`` without one."""
        if (product := self._operands(scores, "relax.matmul", uses=1)) is not None:
            return product[0], product[1], []
        value = self._values.get(scores)
        name = str(getattr(getattr(value, "op", None), "name", ""))
        if name not in {*BINARY, SELECTION, RESHAPE} or self._uses[scores] != 1:
            return None
        operands = list(value.args)[: 1 if name == RESHAPE else None]  # type: ignore[union-attr]
        shape = sizes(scores)
        for place, operand in enumerate(operands):
            is_whole = sizes(operand)[-2:] == shape[-2:] if name == RESHAPE else sizes(operand) == shape
            found = self._product(operand) if is_whole and isinstance(operand, tvm.ir.Var) else None
            if found is not None:
                others = [SCORE if other == place else _operand(each) for other, each in enumerate(operands)]
                query, keys, before = found
                return query, keys, [*before, Operator(name, tuple(others), shape[:-2])]
        return None

    def _operands(self, variable: Any, name: str, *, uses: int | None = None) -> list[Any] | None:
        """Return the operands of the operator that computes a variable; ``None`` for another, or for other readers."""
        value = self._values.get(variable) if isinstance(variable, tvm.ir.Var) else None
        if getattr(getattr(value, "op", None), "name", "") != name or uses not in (None, self._uses[variable]):
            return None
        return list(value.args)  # type: ignore[union-attr]


def _swaps_last(axes: Any, rank: int) -> bool:
    """Return True for the permutation that swaps the last two axes; without ``axes`` all are reversed."""
    order = [*reversed(range(rank))] if axes is None else [int(axis) % rank for axis in axes]
    return order == [*range(rank - 2), rank - 1, rank - 2]


def _fits(attention: Attention) -> bool:
    """Return True if all sizes are known, and the operands are of float32 and have leading sizes that fit."""
    query, keys, values, result = shapes = [*attention.shapes, sizes(attention.result)]
    parts = (attention.query, attention.keys, attention.values, attention.result)
    rank = len(query)
    tensors = [each for operator in attention.operators for each in operator.operands if is_tensor(each)]
    if rank < 2 or any(len(shape) != rank for shape in shapes):
        return False
    shared = query[:-2] if attention.group == 1 else (*query[:-3], query[-3] // attention.group)
    return (
        result[:-2] == query[:-2]
        and all(shape[:-2] == shared for shape in (keys, values))
        and (query[-2] >= ROWS or _fits_few_rows(attention))
        and all(str(part.ty.dtype) == "float32" for part in parts)
        and all(sizes(each) and str(each.ty.dtype) in ("float32", "bool") for each in tensors)
    )


def _fits_few_rows(attention: Attention) -> bool:
    """Return True if an attention of few rows has keys that need no packing, and parts for several threads."""
    *leading, rows, depth = sizes(attention.query)
    return (
        attention.has_rows_of_keys
        and depth % LANES == 0
        and attention.group * rows <= MOST_FEW_ROWS
        and math.prod(leading) > attention.group
    )


def sizes(expression: Any) -> tuple[int, ...]:
    """Return the shape of a tensor; an empty one for what is no tensor, has no axis, or has open sizes."""
    shape = getattr(getattr(expression, "ty", None), "shape", None)
    if not isinstance(shape, relax.ShapeExpr) or not all(isinstance(size, tirx.IntImm) for size in shape.values):
        return ()
    return tuple(int(size) for size in shape.values)


def is_tensor(operand: Any) -> bool:
    """Return True for an operand that is neither a number nor the scores."""
    return operand is not SCORE and not isinstance(operand, float)


def _operand(expression: Any) -> Any:
    """Return the number of a constant that has only one, and any other expression as it is."""
    number = _number(expression)
    return expression if number is None else number


def _number(expression: Any) -> float | None:
    if not isinstance(expression, tvm.ir.GenericConst) or str(expression.ty.dtype) != "float32":
        return None
    array = expression.value.numpy()
    return float(array.reshape(())) if array.size == 1 else None
