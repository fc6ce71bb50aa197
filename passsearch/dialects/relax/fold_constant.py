"""Relax's ``FoldConstant``, with numpy in place of one compilation per constant call.

TVM evaluates every call whose arguments are constants by compiling it on its own, some 30 ms a call: 12 s for the batch
norms of MobileNetV2. Here numpy evaluates the operators on which it agrees bit for bit with the code LLVM makes, and
TVM's own pass then folds what is left and drops what nobody reads, so the resulting IR is the one TVM alone would make.

Imports only ``tvm`` and numpy: the file is also copied beside exported deployment scripts.
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

__all__ = ["EVALUATED_OPERATORS", "FoldConstant", "folded"]

FLOATS, INTEGERS = ("float32", "float64"), ("int32", "int64")
EXTERNAL = ("Codegen", "Composite", "Primitive")
"""Attributes of functions that belong to a code generator, or are one kernel already."""


def FoldConstant(evaluator: str = "tvm") -> Any:  # noqa: N802
    """Make the pass; both evaluators give structurally equal modules.

    Args:
        evaluator: ``"tvm"`` for the pass as TVM has it, ``"numpy"`` for the fast one.

    Raises:
        ValueError: The evaluator is neither of the two.
    """
    if evaluator not in ("tvm", "numpy"):
        raise ValueError(f'FoldConstant\'s evaluator is "tvm" or "numpy", not {evaluator!r}')
    fold_rest = relax.transform.FoldConstant()
    if evaluator == "tvm":
        return fold_rest
    return tvm.transform.module_pass(
        lambda module, _: fold_rest(folded(module)), opt_level=fold_rest.info.opt_level, name="FoldConstant"
    )


def folded(module: tvm.IRModule) -> tvm.IRModule:
    """The module with whatever numpy can evaluate bound to its value."""
    folder = _Folder(module)
    for name, function in module.functions_items():
        attributes = function.attrs or {}
        if isinstance(function, relax.Function) and not any(each in attributes for each in EXTERNAL):
            folder.builder_.update_func(name, folder.visit_expr(function))
    return folder.builder_.get()


@mutator
class _Folder(PyExprMutator):  # type: ignore[misc]
    """Binds to its value whatever numpy can evaluate; TVM's pass puts that in place of the variable."""

    def visit_call_(self, call: Any) -> Any:
        """The value of a call on constants; any other as it is."""
        call = self.visit_expr_post_order(call)
        evaluate = _EVALUATORS.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if evaluate is None or not self.builder_.current_block_is_dataflow():  # where TVM folds no operators
            return call
        operands = [self._value(each) for each in call.args]
        if any(each is None for each in operands):
            return call
        value = evaluate(call, *operands)
        if value is None or (value.dtype.kind == "f" and np.isnan(value).any()):
            return call  # numpy and LLVM may disagree on the sign of a NaN
        return relax.const(value, str(value.dtype))

    def _value(self, expr: Any) -> Any:
        """The array of a constant or number, also of one that a variable has; a shape's sizes; ``None`` of all else."""
        if isinstance(expr, relax.Var):
            expr = self.lookup_binding(expr)
        if isinstance(expr, GenericConst) and isinstance(expr.value, tvm.runtime.Tensor):
            return expr.value.numpy() if str(expr.value.dtype) in FLOATS + INTEGERS else None
        if isinstance(expr, (FloatImm, IntImm)):
            return np.asarray(expr.value, str(expr.ty.dtype)) if str(expr.ty.dtype) in FLOATS + INTEGERS else None
        if isinstance(expr, relax.ShapeExpr):
            sizes = list(expr.values)
            return [int(each) for each in sizes] if all(isinstance(each, IntImm) for each in sizes) else None
        return None


def _elementwise(function: Callable[..., Any], kinds: tuple[str, ...] = FLOATS + INTEGERS) -> Callable[..., Any]:
    def evaluate(_: Any, *operands: Any) -> Any:
        if {str(each.dtype) for each in operands} not in [{kind} for kind in kinds]:
            return None
        # A scalar stands in the kernel as a number, and TVM simplifies: x * 0, 0 / x and x + 0 lose signs of zeros,
        # x / c becomes x * (1 / c).
        scalars = [each for each in operands if not each.ndim]
        if any(not each for each in scalars) or (scalars and function is np.divide):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(function(*operands))

    return evaluate


def _moved(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda call, data, *rest: np.array(function(call.attrs, data, *rest), order="C")


def _axes(given: Any) -> tuple[int, ...] | None:
    return None if given is None else tuple(int(each) for each in given)


_EVALUATORS: dict[str, Callable[..., Any]] = {
    "relax.add": _elementwise(np.add),
    "relax.subtract": _elementwise(np.subtract),
    "relax.multiply": _elementwise(np.multiply),
    "relax.divide": _elementwise(np.divide, FLOATS),
    "relax.negative": _elementwise(np.negative),
    "relax.sqrt": _elementwise(np.sqrt, FLOATS),
    "relax.rsqrt": _elementwise(lambda data: np.divide(data.dtype.type(1), np.sqrt(data)), FLOATS),
    "relax.expand_dims": _moved(lambda attrs, data: np.expand_dims(data, tuple(attrs.axis))),
    "relax.permute_dims": _moved(lambda attrs, data: np.transpose(data, _axes(attrs.axes))),
    "relax.reshape": _moved(lambda _, data, sizes: np.reshape(data, sizes)),
    "relax.squeeze": _moved(lambda attrs, data: np.squeeze(data, _axes(attrs.axis))),
}

EVALUATED_OPERATORS = frozenset(_EVALUATORS)
"""What numpy evaluates; TVM does the rest."""
