"""TVM's ``CombineParallelMatmul``, for networks with products whose left operand is a constant, too."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import transform
from tvm.relax.expr_functor import PyExprMutator, mutator


def CombineParallelMatmul() -> Any:  # noqa: N802
    """Return ``relax.transform.CombineParallelMatmul`` for all products, followed by ``CanonicalizeBindings``.

    A module that computes with open sizes stays as it is.
    """

    def combine(module: Any, _context: Any) -> Any:
        has_constants = _has_constants(module)
        # TVM's pass ends with an error at a left operand that is no variable; its second one puts the constant back.
        changed = _with_variables(module) if has_constants else module
        try:
            changed = transform.CanonicalizeBindings()(transform.CombineParallelMatmul()(changed))
        except TypeError as error:
            # TVM takes every value for a tensor, and fails where an open size is computed with.
            if "PrimType" not in str(error):
                raise
            return module
        return transform.DeadCodeElimination()(changed) if has_constants else changed

    return tvm.transform.module_pass(combine, opt_level=0, name="CombineParallelMatmul")


def _has_constants(module: Any) -> bool:
    """Return True if the left operand of a product of a module is a constant."""
    found: list[Any] = []

    def visit(call: Any) -> None:
        if _is_constant_left(call):
            found.append(call)

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (relax.Call, visit))
    return bool(found)


def _with_variables(module: Any) -> Any:
    """Return a module with a variable for each of these constants."""
    writer = _Writer(module)
    for name, function in module.functions_items():
        if isinstance(function, relax.Function):
            writer.builder_.update_func(name, writer.visit_expr(function))
    return writer.builder_.finalize()


def _is_constant_left(call: Any) -> bool:
    return getattr(call.op, "name", "") == "relax.matmul" and isinstance(call.args[0], tvm.ir.GenericConst)


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Binds the constants before their products."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if not _is_constant_left(call):
            return call
        return relax.Call(call.op, [self.builder_.emit(call.args[0]), *call.args[1:]], call.attrs)
