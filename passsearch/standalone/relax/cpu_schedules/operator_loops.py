"""Loops for operators that ``LegalizeOps`` leaves and TVM lowers last of all, to functions that no schedule changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

from .cumulative_sums import add_up_columns
from .top_k import select_top_k

OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {"relax.cumsum": add_up_columns, "relax.topk": select_top_k}
"""What writes the loops, by operator: a function of the builder and the call, ``None`` for a form it does not know."""


def write_loops(module: Any) -> Any:
    """Return the module with functions of loops for these operators."""
    writer = _Writer(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            changed = writer.visit_expr(function)
            if not changed.same_as(function):
                writer.builder_.update_func(name, changed)
    if not writer.is_changed:
        return module
    return relax.transform.DeadCodeElimination()(writer.builder_.finalize())


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces the calls of operators."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.is_changed = False

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        write = OPERATORS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        written = write(self.builder_, call) if write else None
        if written is None:
            return call
        self.is_changed = True
        return written
