"""The passes that fold constants."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from .folder import Folder


def FoldConstant(evaluator: str = "tvm", fold_qnn: bool = True) -> tvm.transform.Pass:  # noqa: N802
    """Return the pass; both evaluators make structurally equal modules.

    Args:
        evaluator: ``"tvm"`` for TVM's own pass, ``"numpy"`` for the fast one.
        fold_qnn: Fold quantised operators too, as in ``relay.transform.FoldConstant``.

    Raises:
        ValueError: The evaluator is neither ``"tvm"`` nor ``"numpy"``.
    """
    if evaluator not in ("tvm", "numpy"):
        raise ValueError(f'FoldConstant\'s evaluator is "tvm" or "numpy", not {evaluator!r}')
    fold_rest = relay.transform.FoldConstant(fold_qnn)
    if evaluator == "tvm":
        return fold_rest
    # A function pass, because TVM itself then skips functions that belong to external compilers.
    fold_with_numpy = relay.transform.function_pass(_fold_function, opt_level=2, name="FoldConstantNumpy")

    def fold(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return fold_rest(fold_with_numpy(module))

    return tvm.transform.module_pass(fold, opt_level=2, name="FoldConstant")


def FoldScaleAxis(evaluator: str = "tvm") -> tvm.transform.Pass:  # noqa: N802
    """Return ``relay.transform.FoldScaleAxis``, a sequence that ends with FoldConstant, by the same two evaluators."""
    if evaluator == "tvm":
        return relay.transform.FoldScaleAxis()
    moves = [relay.transform.BackwardFoldScaleAxis(), relay.transform.ForwardFoldScaleAxis()]
    return tvm.transform.Sequential([*moves, FoldConstant(evaluator)], name="FoldScaleAxis")


def DynamicToStatic(evaluator: str = "tvm") -> tvm.transform.Pass:  # noqa: N802
    """Return ``relay.transform.DynamicToStatic``, which folds constants first, by the same two evaluators."""
    if evaluator == "tvm":
        return relay.transform.DynamicToStatic()
    return tvm.transform.Sequential(
        [FoldConstant(evaluator), relay.transform.DynamicToStatic()], opt_level=2, name="DynamicToStatic"
    )


def _fold_function(function: Any, _module: tvm.IRModule, _context: tvm.transform.PassContext) -> Any:
    return Folder().fold(function)
