"""Rewritings of imported casts that TVM's build computes as something else.

``SimplifyExpr``, which every build runs, removes the first of two casts where it takes that one for wider, and both
behind a clip whose bounds the first one holds. It forgets that int8 has no place in uint8, nor every int32 in float32,
and that a cast of a clipped float to an integer rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tvm import relay
from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, wildcard

HIERARCHY = ("int", "uint", "float")
"""Kinds of numbers in the order in which TVM takes a later one for wider."""

Expressions = Mapping[object, object]


class KeptCasts(DFPatternCallback):  # type: ignore[misc]
    """Rewrites two casts, of which TVM would remove one that changes values, to casts with a copy in between."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("cast")(is_op("cast")(wildcard()))

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Expressions) -> relay.Expr:
        """Return the casts, with a copy in between if the first one is needed."""
        inner = pre.args[0]
        data = inner.args[0]
        source, between, target = (each.checked_type.dtype for each in (data, inner, pre))
        is_clip = isinstance(data, relay.Call) and getattr(data.op, "name", "") == "clip" and source == target
        if _holds(between, source) or not (is_clip or _seems_wider(source, between)):
            return post
        return relay.cast(relay.copy(post.args[0]), target)


class HalvedTwice(DFPatternCallback):  # type: ignore[misc]
    """Rewrites a cast from float64 to float16, of which some builds of TVM make what is not a number."""

    def __init__(self) -> None:
        super().__init__(require_type=True)
        self.pattern = is_op("cast")(wildcard())

    def callback(self, pre: relay.Expr, post: relay.Expr, _: Expressions) -> relay.Expr:
        """Return a cast by way of float32."""
        if (pre.args[0].checked_type.dtype, pre.checked_type.dtype) != ("float64", "float16"):
            return post
        return relay.cast(relay.cast(post.args[0], "float32"), "float16")


def _seems_wider(source: str, target: str) -> bool:
    """Return True if TVM takes a cast for one that loses nothing."""
    kinds = [_kind(dtype) for dtype in (source, target)]
    return None not in kinds and kinds[0] <= kinds[1] and _bits(source) <= _bits(target)  # type: ignore[operator]


def _holds(target: str, source: str) -> bool:
    """Return True if a type holds every value of another one."""
    if "bool" in (target, source):
        return source == "bool"
    if None in (_kind(target), _kind(source)):
        return target == source
    # numpy takes a float64 for one that holds every integer of 64 bits.
    is_rounded = "int" in source and "float" in target and _bits(source) >= _bits(target)
    return np.can_cast(source, target) and not is_rounded


def _kind(dtype: str) -> int | None:
    name = dtype.rstrip("0123456789")
    return HIERARCHY.index("uint" if name == "bool" else name) if name in (*HIERARCHY, "bool") else None


def _bits(dtype: str) -> int:
    return int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz") or 1)
