"""Relay's ``SimplifyExpr``, skipped if there is nothing to simplify.

TVM infers the types of the whole network again for each pattern of the pass, two dozen patterns since 0.13. That takes
seconds, and nearly always nothing changes. Here one walk over the graph searches for calls that some pattern might
rewrite. If there is none, the pass would change nothing (or fail), so it is skipped; otherwise TVM's pass runs. The
walk knows the patterns of ``src/relay/transforms/simplify_expr.cc`` from TVM 0.8 to 0.19. A call in doubt counts as one
that might be rewritten.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict

import tvm
from tvm import relay
from tvm.relay.transform import _ffi_api

__all__ = ["SimplifyExpr", "SimplifyExprPostAlterOp"]

LARGEST = 3.4e38
"""Just below the largest value of float32; a clip of a float32 with a bound below this one changes values."""

READABLE = ("float16", "float32", "float64", "int", "uint", "bool")
"""Dtypes of constants that numpy reads as TVM does; of a bfloat16 constant numpy would read the bits."""


def SimplifyExpr(look_first: bool = False) -> tvm.transform.Pass:  # noqa: N802
    """Return ``relay.transform.SimplifyExpr``.

    Args:
        look_first: Run it only if there may be something to simplify; the resulting IR is the same.
    """
    return _skip_if_no_match(relay.transform.SimplifyExpr(), look_first=look_first)


def SimplifyExprPostAlterOp(look_first: bool = False) -> tvm.transform.Pass:  # noqa: N802
    """Return TVM's ``SimplifyExprPostAlterOp``, whose patterns are a part of SimplifyExpr's.

    Args:
        look_first: Run it only if there may be something to simplify; the resulting IR is the same.
    """
    return _skip_if_no_match(_ffi_api.SimplifyExprPostAlterOp(), look_first=look_first)


def _skip_if_no_match(simplify: tvm.transform.Pass, *, look_first: bool) -> tvm.transform.Pass:
    if not look_first:
        return simplify

    # Opt level 0 like TVM's pass, so that both run in the same contexts.
    def simplify_if_match(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return simplify(module) if _might_change(module) else module

    return tvm.transform.module_pass(simplify_if_match, opt_level=0, name=simplify.info.name)


def _might_change(module: tvm.IRModule) -> bool:
    has_match = False

    def visit(expr: Any) -> None:
        nonlocal has_match
        if not has_match and isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op):
            might_match = _MIGHT_MATCH.get(expr.op.name)
            has_match = might_match is not None and might_match(expr)

    for function in module.functions.values():
        if isinstance(function, relay.Function):
            relay.analysis.post_order_visit(function, visit)
    return has_match


def _always(_: Any) -> bool:
    return True


def _is_call_of(expr: Any, *names: str) -> bool:
    return isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name in names


def _is_scalar(expr: Any, value: float) -> bool:
    """Return True if an expression is, or might be, a constant with one element of this value."""
    if not isinstance(expr, relay.Constant) or any(size != 1 for size in expr.data.shape):
        return False
    if not expr.data.dtype.startswith(READABLE):
        return True  # in doubt
    return bool(expr.data.numpy().reshape(-1)[0] == value)


def _takes_constant_and(call: Any, name: str) -> bool:
    """Return True if one argument is a constant and the other a call of ``name`` with a constant, in any order."""
    left, right = call.args
    return any(
        isinstance(constant, relay.Constant)
        and _is_call_of(other, name)
        and any(isinstance(argument, relay.Constant) for argument in other.args)
        for constant, other in ((left, right), (right, left))
    )


def _add(call: Any) -> bool:
    left, right = call.args
    is_double = left.same_as(right)
    is_neutral = _is_scalar(left, 0) or _is_scalar(right, 0)
    is_binomial = _is_binomial(left, right) or _is_binomial(right, left)
    return is_double or is_neutral or is_binomial or _takes_constant_and(call, "add")


def _is_binomial(total: Any, rest: Any) -> bool:
    """Return True for a sum of three products."""
    return (
        _is_call_of(total, "add")
        and _is_call_of(rest, "multiply")
        and all(_is_call_of(product, "multiply") for product in total.args)
    )


def _multiply(call: Any) -> bool:
    is_neutral = any(_is_scalar(argument, 1) for argument in call.args)
    return is_neutral or _takes_constant_and(call, "add") or _takes_constant_and(call, "multiply")


def _subtract(call: Any) -> bool:
    return _is_scalar(call.args[1], 0)


def _divide(call: Any) -> bool:
    return _is_scalar(call.args[1], 1) or (_is_call_of(call.args[1], "sqrt") and _replaces_roots())


@lru_cache(maxsize=1)
def _replaces_roots() -> bool:
    """Return True if this TVM has the pattern ``x / sqrt(y)``."""
    # Every batch_norm has such a quotient, but not every TVM has the pattern. Its version does not say, so it is tried.
    x, y = (relay.var(name, shape=(1,), dtype="float32") for name in "xy")
    before = tvm.IRModule.from_expr(relay.divide(x, relay.sqrt(y)))
    with tvm.transform.PassContext(opt_level=0):  # a context without the caller's instruments and disabled passes
        return "rsqrt(" in str(relay.transform.SimplifyExpr()(before))


def _reshape(call: Any) -> bool:
    return _is_call_of(call.args[0], "reshape", "contrib_reverse_reshape")


def _moves_axes(call: Any) -> bool:
    return _is_call_of(call.args[0], "transpose", "layout_transform")


def _transpose(call: Any) -> bool:
    axes = call.attrs.axes
    is_simple = (
        axes is None or [int(axis) for axis in axes] == list(range(len(axes))) or any(int(axis) < 0 for axis in axes)
    )
    return is_simple or _moves_axes(call)


def _layout_transform(call: Any) -> bool:
    return call.attrs.src_layout == call.attrs.dst_layout or _moves_axes(call)


def _cast(call: Any) -> bool:
    before = call.args[0]
    if _is_call_of(before, "cast", "cast_like", "clip"):
        return True
    try:
        return bool(before.checked_type.dtype == call.attrs.dtype)
    except (ValueError, AttributeError):  # an expression without a type, or a tuple
        return True


def _clip(call: Any) -> bool:
    """Return True for a clip that TVM might remove, because its bounds are beyond its type's range."""
    try:
        is_float = call.checked_type.dtype == "float32"
    except (ValueError, AttributeError):
        return True
    is_bounded = abs(call.attrs.a_min) < LARGEST or abs(call.attrs.a_max) < LARGEST
    return not (is_float and is_bounded) or _is_call_of(call.args[0], "cast")


def _reads_dequantized(call: Any) -> bool:
    return _is_call_of(call.args[0], "qnn.dequantize")


_CREATE = ("zeros", "ones", "full")
_LIKE = ("zeros_like", "ones_like", "full_like", "reshape_like", "collapse_sum_like", "broadcast_to_like", "cast_like")
_MIGHT_MATCH: Dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys((*_CREATE, *_LIKE), _always),
    **dict.fromkeys(("argmax", "argmin", "argsort"), _reads_dequantized),
    "add": _add,
    "multiply": _multiply,
    "subtract": _subtract,
    "divide": _divide,
    "reshape": _reshape,
    "contrib_reverse_reshape": _reshape,
    "transpose": _transpose,
    "layout_transform": _layout_transform,
    "cast": _cast,
    "clip": _clip,
}
"""Functions that return True if a call might be rewritten, by operator; no pattern begins at any other operator."""
