"""The pass that makes one function of each attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, te
from tvm.relax.expr_functor import PyExprMutator, mutator

from .loops import COLUMNS, Operator, attention_loops, block_count
from .pattern import Attention, find_attentions, is_tensor, sizes

LEAST_COLUMNS = 128
"""Number of columns of scores from which an attention becomes one function unless something else is asked for."""

ATTENTION = "passsearch.attention"
"""Attribute of a function that computes an attention. ``ScheduleCPU`` knows the order of its blocks."""

FUSES_WITH_NOTHING = 8
"""Value of the attribute ``op_pattern``, by which TVM decides on fusion (``OpPatternKind``)."""


def FuseAttention(  # noqa: N802
    attentions: Mapping[str, int] | None = None, least_columns: int = LEAST_COLUMNS
) -> Any:
    """Return a pass that makes one function of attentions in float32.

    Between the first product and the softmax there may be additions of masks, scales and selections; after it, a
    selection that replaces NaN by 0. Keys and values that are repeated for a group of heads are read where they are
    once. Attentions of fewer than ``ROWS`` queries become one function if their keys are transposed before the product.

    Args:
        attentions: 1 for a single attention that shall become one function, 0 for one that shall not, by its place
            among all attentions that can, as text.
        least_columns: Number of columns of scores from which an attention that is not named becomes one function.

    Raises:
        ValueError: A value is not 0 or 1, or a place is not that of an attention.
    """
    chosen = {int(place): value for place, value in (attentions or {}).items()}
    if wrong := [value for value in chosen.values() if value not in (0, 1)]:
        raise ValueError(f"an attention has 0 or 1; got {wrong[0]}")

    def fuse(module: Any, _context: Any) -> Any:
        found = find_attentions(module)
        if unknown := set(chosen) - set(range(len(found))):
            raise ValueError(f"there is no attention {min(unknown)}; the network has {len(found)}")
        fused = [each for place, each in enumerate(found) if chosen.get(place, each.columns >= least_columns)]
        if not fused:
            return module
        writer = _Writer(module, {attention.result: attention for attention in fused})
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return relax.transform.DeadCodeElimination()(writer.builder_.finalize())

    return tvm.transform.module_pass(fuse, opt_level=0, name="FuseAttention")


def regions(module: Any) -> list[dict[str, str]]:
    """Return ``key`` (the number) and ``like`` (the shapes) of each attention that ``FuseAttention`` can fuse."""
    shapes = (["x".join(map(str, shape)) for shape in attention.shapes] for attention in find_attentions(module))
    return [{"key": str(place), "like": " ".join(each)} for place, each in enumerate(shapes)]


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces the second product of every attention by a call of a function that computes all of it."""

    def __init__(self, module: Any, attentions_by_result: Mapping[Any, Attention]) -> None:
        super().__init__(module)
        self._attentions = attentions_by_result

    def visit_var_binding_(self, binding: Any) -> None:
        attention = self._attentions.get(binding.var)
        if attention is not None:
            binding = relax.VarBinding(binding.var, self._call(attention))
        super().visit_var_binding_(binding)

    def _call(self, attention: Attention) -> Any:
        arguments: list[Any] = []
        inputs: list[Any] = []

        def add(argument: Any) -> Any:
            arguments.append(argument)
            inputs.append(te.placeholder(argument.ty.shape.values, str(argument.ty.dtype), name="operand"))
            return inputs[-1]

        query, keys, values = map(add, (attention.query, attention.keys, attention.values))
        columns = attention.columns

        def in_loops(operator: Operator) -> Operator:
            operands = (add(self._padded(each, columns)) if is_tensor(each) else each for each in operator.operands)
            return replace(operator, operands=tuple(operands))

        operators = [in_loops(operator) for operator in attention.operators]
        result = attention_loops(
            query,
            keys,
            values,
            operators,
            replaces_nan=attention.replaces_nan,
            group=attention.group,
            has_rows_of_keys=attention.has_rows_of_keys,
        )
        function = te.create_prim_func([*inputs, result]).without_attr("global_symbol")
        function = function.with_attr("op_pattern", FUSES_WITH_NOTHING).with_attr(ATTENTION, 1)
        name = self.builder_.add_func(function, "attention")
        return relax.call_tir(name, arguments, relax.TensorType([int(size) for size in result.shape], "float32"))

    def _padded(self, operand: Any, columns: int) -> Any:
        """Return an operand with zeros behind its columns, so that its last block of columns is whole, too."""
        *leading, last = sizes(operand)
        rest = block_count(columns) * COLUMNS - columns
        if last == 1 or not rest:
            return operand
        widths = [*((0, 0) for _ in leading), (0, rest)]
        if isinstance(operand, tvm.ir.GenericConst):
            return relax.const(tvm.runtime.tensor(np.pad(operand.value.numpy(), widths)))
        is_boolean = str(operand.ty.dtype) == "bool"  # TVM pads numbers only
        numbers = relax.op.astype(operand, "int8") if is_boolean else operand
        padded = self.builder_.emit(relax.op.nn.pad(numbers, [width for pair in widths for width in pair]))
        return self.builder_.emit(relax.op.astype(padded, "bool")) if is_boolean else padded
