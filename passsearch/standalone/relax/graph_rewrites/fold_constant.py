"""Relax's ``FoldConstant``, evaluated by numpy instead of one compilation per constant call.

TVM compiles every call on constants separately, some 30 ms a call: 12 s for the batch norms of MobileNetV2. Here numpy
evaluates the operators whose results equal those of LLVM's code bit for bit. TVM's own pass then folds the other calls
and removes unused bindings. The resulting IR is the one that TVM alone would make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm.tirx import FloatImm, IntImm

__all__ = ["EVALUATED_OPERATORS", "FoldConstant", "fold_with_numpy"]

FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
EXTERNAL = ("Codegen", "Composite", "Primitive")
"""Attributes of functions that belong to a code generator, or are one kernel already; TVM's pass skips them."""


def FoldConstant(evaluator: str = "tvm") -> Any:  # noqa: N802
    """Return the pass; both evaluators make structurally equal modules.

    Args:
        evaluator: ``"tvm"`` for TVM's own pass, ``"numpy"`` for the fast one.

    Raises:
        ValueError: The evaluator is neither ``"tvm"`` nor ``"numpy"``.
    """
    if evaluator not in ("tvm", "numpy"):
        raise ValueError(f'FoldConstant\'s evaluator is "tvm" or "numpy", not {evaluator!r}')
    fold_rest = relax.transform.FoldConstant()
    if evaluator == "tvm":
        return fold_rest
    return tvm.transform.module_pass(
        lambda module, _: fold_rest(fold_with_numpy(module)), opt_level=fold_rest.info.opt_level, name="FoldConstant"
    )


def fold_with_numpy(module: tvm.IRModule) -> tvm.IRModule:
    """Return the module with the value in place of every call that numpy can evaluate."""
    folder = _Folder(module)
    for name, function in module.functions_items():
        attributes = function.attrs or {}
        if isinstance(function, relax.Function) and not any(name in attributes for name in EXTERNAL):
            folder.builder_.update_func(name, folder.visit_expr(function))
    return folder.builder_.get()


@mutator
class _Folder(PyExprMutator):  # type: ignore[misc]
    """Replaces calls by constants; TVM's pass then propagates each constant to the uses of its variable."""

    def visit_call_(self, call: Any) -> Any:
        """Return the value of a call on constants, or the call itself."""
        call = self.visit_expr_post_order(call)
        evaluate = _EVALUATORS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if (
            evaluate is None or not self.builder_.current_block_is_dataflow()
        ):  # outside of these, TVM folds no operators
            return call
        operands = [self._value(argument) for argument in call.args]
        if any(operand is None for operand in operands):
            return call
        value = evaluate(call, *operands)
        if value is None or (value.dtype.kind == "f" and np.isnan(value).any()):
            return call  # numpy and LLVM may disagree on the sign of a NaN
        return relax.const(value, str(value.dtype))

    def _value(self, expr: Any) -> Any:
        """Return the array of a constant, number, or variable bound to one; the sizes of a shape; else ``None``."""
        if isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        if isinstance(expr, GenericConst) and isinstance(expr.value, tvm.runtime.Tensor):
            return expr.value.numpy() if str(expr.value.dtype) in FLOATS + INTEGERS else None
        if isinstance(expr, (FloatImm, IntImm)):
            return np.asarray(expr.value, str(expr.ty.dtype)) if str(expr.ty.dtype) in FLOATS + INTEGERS else None
        if isinstance(expr, relax.ShapeExpr):
            sizes = list(expr.values)
            return [int(size) for size in sizes] if all(isinstance(size, IntImm) for size in sizes) else None
        return None


def _elementwise(function: Callable[..., Any], kinds: tuple[str, ...] = FLOATS + INTEGERS) -> Callable[..., Any]:
    def evaluate(_: Any, *operands: Any) -> Any:
        if {str(operand.dtype) for operand in operands} not in [{kind} for kind in kinds]:
            return None
        # A scalar is a literal in the kernel, and TVM simplifies with it: x * 0, 0 / x and x + 0 lose signs of zeros,
        # x / c becomes x * (1 / c). Such calls are left to TVM.
        scalars = [operand for operand in operands if not operand.ndim]
        if any(not scalar for scalar in scalars) or (scalars and function is np.divide):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))

    return evaluate


def _movement(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, data, *rest: np.array(function(call.attrs, data, *rest), order="C")


def _axes(axes: Any) -> tuple[int, ...] | None:
    return None if axes is None else tuple(int(axis) for axis in axes)


_EVALUATORS: dict[str, Callable[..., Any]] = {
    "relax.add": _elementwise(np.add),
    "relax.subtract": _elementwise(np.subtract),
    "relax.multiply": _elementwise(np.multiply),
    "relax.divide": _elementwise(np.divide, FLOATS),
    "relax.negative": _elementwise(np.negative),
    "relax.sqrt": _elementwise(np.sqrt, FLOATS),
    "relax.rsqrt": _elementwise(lambda data: np.divide(data.dtype.type(1), np.sqrt(data)), FLOATS),
    "relax.expand_dims": _movement(lambda attrs, data: np.expand_dims(data, tuple(attrs.axis))),
    "relax.permute_dims": _movement(lambda attrs, data: np.transpose(data, _axes(attrs.axes))),
    "relax.reshape": _movement(lambda _, data, sizes: np.reshape(data, sizes)),
    "relax.squeeze": _movement(lambda attrs, data: np.squeeze(data, _axes(attrs.axis))),
}

EVALUATED_OPERATORS = frozenset(_EVALUATORS)
"""Operators that numpy evaluates; TVM evaluates the others."""
