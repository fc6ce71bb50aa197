"""Relay's ``SimplifyExpr`` after a look at whether there is anything to simplify.

TVM infers the types of the whole network anew for each of the pass's patterns, two dozen since 0.13: seconds a network,
nearly always for nothing. Here one walk over the graph looks for calls that some pattern might rewrite; where there is
none, the pass would change nothing (or fail) and is left out, else it runs as it is. The look knows the patterns of
``src/relay/transforms/simplify_expr.cc`` from TVM 0.8 to 0.19; a call in doubt counts as one that might be rewritten.

Imports only ``tvm``: the file is also copied beside exported deployment scripts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Callable, Dict

import tvm
from tvm import relay
from tvm.relay.transform import _ffi_api

__all__ = ["SimplifyExpr", "SimplifyExprPostAlterOp"]

LARGEST = 3.4e38
"""Just below the largest value of float32; a clip of it with a bound below that has an effect."""

READABLE = ("float16", "float32", "float64", "int", "uint", "bool")
"""Types of constants that numpy reads as TVM does; of bfloat16 it would read the bits."""


def SimplifyExpr(look_first: bool = False) -> tvm.transform.Pass:  # noqa: N802
    """``relay.transform.SimplifyExpr``.

    Args:
        look_first: Whether to run it only if there may be something to simplify; the IR is the same.
    """
    return _after_a_look(relay.transform.SimplifyExpr(), look_first=look_first)


def SimplifyExprPostAlterOp(look_first: bool = False) -> tvm.transform.Pass:  # noqa: N802
    """TVM's ``SimplifyExprPostAlterOp``, whose patterns are some of SimplifyExpr's; ``look_first`` as there."""
    return _after_a_look(_ffi_api.SimplifyExprPostAlterOp(), look_first=look_first)


def _after_a_look(simplify: tvm.transform.Pass, *, look_first: bool) -> tvm.transform.Pass:
    if not look_first:
        return simplify

    def run(module: tvm.IRModule, _: tvm.transform.PassContext) -> tvm.IRModule:
        return simplify(module) if _might_change(module) else module

    return tvm.transform.module_pass(run, opt_level=0, name=simplify.info.name)


def _might_change(module: tvm.IRModule) -> bool:
    found = False

    def visit(expr: Any) -> None:
        nonlocal found
        if not found and isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op):
            might_match = _MIGHT_MATCH.get(expr.op.name)
            found = might_match is not None and might_match(expr)

    for function in module.functions.values():
        if isinstance(function, relay.Function):
            relay.analysis.post_order_visit(function, visit)
    return found


def _always(_: Any) -> bool:
    return True


def _calls(expr: Any, *names: str) -> bool:
    return isinstance(expr, relay.Call) and isinstance(expr.op, tvm.ir.Op) and expr.op.name in names


def _is_scalar_of(expr: Any, value: float) -> bool:
    if not isinstance(expr, relay.Constant) or any(size != 1 for size in expr.data.shape):
        return False
    if not expr.data.dtype.startswith(READABLE):
        return True
    return bool(expr.data.numpy().reshape(-1)[0] == value)


def _takes_constant_and(call: Any, name: str) -> bool:
    """Whether one argument is a constant and the other a call of ``name`` with a constant, in any order."""
    left, right = call.args
    return any(
        isinstance(constant, relay.Constant)
        and _calls(other, name)
        and any(isinstance(each, relay.Constant) for each in other.args)
        for constant, other in ((left, right), (right, left))
    )


def _add(call: Any) -> bool:
    left, right = call.args
    doubled = left.same_as(right)
    neutral = _is_scalar_of(left, 0) or _is_scalar_of(right, 0)
    return doubled or neutral or _takes_constant_and(call, "add") or _binomial(left, right) or _binomial(right, left)


def _binomial(total: Any, rest: Any) -> bool:
    """Whether this is a sum of three products."""
    return (
        _calls(total, "add") and _calls(rest, "multiply") and all(_calls(product, "multiply") for product in total.args)
    )


def _multiply(call: Any) -> bool:
    neutral = any(_is_scalar_of(each, 1) for each in call.args)
    return neutral or _takes_constant_and(call, "add") or _takes_constant_and(call, "multiply")


def _subtract(call: Any) -> bool:
    return _is_scalar_of(call.args[1], 0)


def _divide(call: Any) -> bool:
    return _is_scalar_of(call.args[1], 1) or (_calls(call.args[1], "sqrt") and _replaces_roots())


@lru_cache(maxsize=1)
def _replaces_roots() -> bool:
    """Whether this TVM has the pattern ``x / sqrt(y)``, found by trying: every batch_norm has one, not every TVM."""
    x, y = (relay.var(name, shape=(1,), dtype="float32") for name in "xy")
    before = tvm.IRModule.from_expr(relay.divide(x, relay.sqrt(y)))
    with tvm.transform.PassContext(opt_level=0):  # no instrument of the caller's sees or skips it
        return "rsqrt(" in str(relay.transform.SimplifyExpr()(before))


def _reshape(call: Any) -> bool:
    return _calls(call.args[0], "reshape", "contrib_reverse_reshape")


def _moves_axes(call: Any) -> bool:
    return _calls(call.args[0], "transpose", "layout_transform")


def _transpose(call: Any) -> bool:
    axes = call.attrs.axes
    idle = axes is None or [int(axis) for axis in axes] == list(range(len(axes))) or any(int(axis) < 0 for axis in axes)
    return idle or _moves_axes(call)


def _layout_transform(call: Any) -> bool:
    return call.attrs.src_layout == call.attrs.dst_layout or _moves_axes(call)


def _cast(call: Any) -> bool:
    before = call.args[0]
    if _calls(before, "cast", "cast_like", "clip"):
        return True
    try:
        return bool(before.checked_type.dtype == call.attrs.dtype)
    except (ValueError, AttributeError):  # no type, or that of a tuple
        return True


def _clip(call: Any) -> bool:
    """A clip goes where it reaches beyond its type, which one of floating point does not do with common bounds."""
    try:
        is_float = call.checked_type.dtype == "float32"
    except (ValueError, AttributeError):
        return True
    bounded = abs(call.attrs.a_min) < LARGEST or abs(call.attrs.a_max) < LARGEST
    return not (is_float and bounded) or _calls(call.args[0], "cast")


def _of_dequantized(call: Any) -> bool:
    return _calls(call.args[0], "qnn.dequantize")


_CREATE = ("zeros", "ones", "full")
_LIKE = ("zeros_like", "ones_like", "full_like", "reshape_like", "collapse_sum_like", "broadcast_to_like", "cast_like")
_MIGHT_MATCH: Dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys((*_CREATE, *_LIKE), _always),
    **dict.fromkeys(("argmax", "argmin", "argsort"), _of_dequantized),
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
"""Whether a call of an operator might be rewritten, by the operator's name; no pattern begins at any other operator."""
