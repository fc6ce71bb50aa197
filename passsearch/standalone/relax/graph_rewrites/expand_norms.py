"""Normalisations as one operator are written out as means, differences and roots.

TVM's kernels for a layer norm, a group norm and an instance norm sum up values and squares in one reduction with two
results, which schedules leave without vectors. Written out, they are kernels for ``FuseRows`` and ``ScheduleRows``.
TVM's variance is the mean square less the squared mean; here it is the mean of squared differences, which loses less
precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op
from tvm.relax.expr_functor import PyExprMutator, mutator


def ExpandNorms() -> Any:  # noqa: N802
    """Return a pass that writes out normalisations in float32 over the last axes, or over those after the channels."""

    def expand(module: Any, _context: Any) -> Any:
        writer = _Writer(module)
        for name, function in module.functions_items():
            if isinstance(function, relax.Function):
                writer.builder_.update_func(name, writer.visit_expr(function))
        return writer.builder_.finalize()

    return tvm.transform.module_pass(expand, opt_level=0, name="ExpandNorms")


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces each normalisation that it knows by the operators that it consists of."""

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        rule = RULES.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if rule is None or str(call.args[0].ty.dtype) != "float32":
            return call
        shape = call.args[0].ty.shape
        sizes = shape.values if isinstance(shape, relax.ShapeExpr) else [None]  # only the rank may be known
        if not all(isinstance(size, tvm.tirx.IntImm) for size in sizes):
            return call
        result = rule(call, list(map(int, sizes)), self.builder_.emit)
        return call if result is None else result


def _layer_norm(call: Any, shape: list[int], emit: Callable[[Any], Any]) -> Any:
    data, scale, shift = call.args
    kept = _axes_before(call.attrs.axes, len(shape))
    if kept is None or not _has_both(call):
        return None
    has_several_axes = kept < len(shape) - 1
    rows = emit(op.reshape(data, [*shape[:kept], -1])) if has_several_axes else data
    result = _normalised(rows, emit, epsilon=call.attrs.epsilon, is_centred=True)
    if has_several_axes:
        result = emit(op.reshape(result, shape))
    return op.add(emit(op.multiply(result, scale)), shift)


def _rms_norm(call: Any, shape: list[int], emit: Callable[[Any], Any]) -> Any:
    data, scale = call.args
    if _axes_before(call.attrs.axes, len(shape)) != len(shape) - 1:
        return None
    return op.multiply(_normalised(data, emit, epsilon=call.attrs.epsilon, is_centred=False), scale)


def _group_norm(call: Any, shape: list[int], emit: Callable[[Any], Any]) -> Any:
    return _norm_of_channels(call, shape, emit, groups=int(call.attrs.num_groups))


def _instance_norm(call: Any, shape: list[int], emit: Callable[[Any], Any]) -> Any:
    return _norm_of_channels(call, shape, emit, groups=shape[1] if len(shape) > 1 else 0)


def _norm_of_channels(call: Any, shape: list[int], emit: Callable[[Any], Any], *, groups: int) -> Any:
    """Return a norm over groups of channels and all axes after them; ``None`` for another layout of the data."""
    data, scale, shift = call.args
    is_known = int(call.attrs.channel_axis) % len(shape) == 1 and _axes_before(call.attrs.axes, len(shape)) == 2
    if not is_known or not _has_both(call):
        return None
    rows = emit(op.reshape(data, [shape[0], groups, math.prod(shape[1:]) // groups]))
    result = _normalised(rows, emit, epsilon=call.attrs.epsilon, is_centred=True)
    result = emit(op.reshape(result, shape))
    ones = [1] * (len(shape) - 2)
    scale, shift = (emit(op.reshape(each, [shape[1], *ones])) for each in (scale, shift))
    return op.add(emit(op.multiply(result, scale)), shift)


def _has_both(call: Any) -> bool:
    """Return True if a norm has a scale and a shift. TVM's kernels ignore the attributes that leave one of them out."""
    return bool(call.attrs.scale and call.attrs.center)


def _axes_before(axes: Any, rank: int) -> int | None:
    """Return the number of axes that a norm leaves, all of them before the others; ``None`` for another order."""
    normalised = sorted(int(axis) % rank for axis in axes)
    kept = rank - len(normalised)
    return kept if normalised == list(range(kept, rank)) else None


def _normalised(rows: Any, emit: Callable[[Any], Any], *, epsilon: float, is_centred: bool) -> Any:
    """Return rows divided by their deviation, or by the root of their mean square if they are not centred first."""
    if is_centred:
        rows = emit(op.subtract(rows, emit(op.mean(rows, -1, keepdims=True))))
    variance = emit(op.mean(emit(op.multiply(rows, rows)), -1, keepdims=True))
    deviation = emit(op.sqrt(emit(op.add(variance, relax.const(epsilon, "float32")))))
    return emit(op.divide(rows, deviation))


RULES: Mapping[str, Callable[[Any, list[int], Callable[[Any], Any]], Any]] = MappingProxyType(
    {
        "relax.nn.layer_norm": _layer_norm,
        "relax.nn.rms_norm": _rms_norm,
        "relax.nn.group_norm": _group_norm,
        "relax.nn.instance_norm": _instance_norm,
    }
)
"""What an operator is written out as; a rule returns ``None`` for a form that it does not know."""
