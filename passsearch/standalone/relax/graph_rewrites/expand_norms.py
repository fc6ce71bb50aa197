"""Normalisations are written out as means, differences and roots of rows.

An instance norm of ONNX comes as a mean and a variance over several axes, in kernels that read the data five times.
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
        written = writer.builder_.finalize()
        return relax.transform.DeadCodeElimination()(written) if writer.leaves_operands else written

    return tvm.transform.module_pass(expand, opt_level=0, name="ExpandNorms")


DIVIDE = tvm.ir.Op.get("relax.divide")
AFFINE = (tvm.ir.Op.get("relax.multiply"), tvm.ir.Op.get("relax.add"))


@mutator
class _Writer(PyExprMutator):  # type: ignore[misc]
    """Replaces each normalisation that it knows by the operators that it consists of.

    Attributes:
        leaves_operands: Whether a mean and a variance were replaced, which nothing may read any more.
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.leaves_operands = False
        self._rows: list[Any] = []

    def visit_call_(self, call: Any) -> Any:
        call = self.visit_expr_post_order(call)
        if call.op in (DIVIDE, *AFFINE):
            result = self._rows_of_quotient(call) if call.op == DIVIDE else self._rows_of_affine(call)
            self.leaves_operands |= result is not None
            return call if result is None else result
        rule = RULES.get(call.op.name) if isinstance(call.op, tvm.ir.Op) else None
        if rule is None or str(call.args[0].ty.dtype) != "float32":
            return call
        shape = call.args[0].ty.shape
        sizes = shape.values if isinstance(shape, relax.ShapeExpr) else [None]  # only the rank may be known
        if not all(isinstance(size, tvm.tirx.IntImm) for size in sizes):
            return call
        result = rule(call, list(map(int, sizes)), self.builder_.emit)
        return call if result is None else result

    def _rows_of_quotient(self, call: Any) -> Any:
        """Return ``(x - mean(x)) / sqrt(variance(x) + epsilon)`` over the last axes as a norm of rows."""
        difference, root = map(self._value, call.args)
        if not (_is_call(difference, "relax.subtract") and _is_call(root, "relax.sqrt")):
            return None
        total, mean = self._value(root.args[0]), self._value(difference.args[1])
        variance: Any = self._value(total.args[0]) if _is_call(total, "relax.add") else None
        if not (_is_call(mean, "relax.mean") and _is_call(variance, "relax.variance")):
            return None
        data, epsilon = difference.args[0], total.args[1]
        shape = _static_sizes(data)
        axes = [
            sorted(int(axis) % len(shape) for axis in _axes_of(each, len(shape)))
            for each in (mean, variance)
            if shape and each.attrs.keepdims and data.same_as(each.args[0])
        ]
        kept = _axes_before(axes[0], len(shape)) if len(axes) == 2 and axes[0] == axes[1] else None
        if kept is None or not isinstance(epsilon, tvm.ir.GenericConst) or epsilon.value.numpy().size != 1:
            return None
        emit = self.builder_.emit
        has_several_axes = kept < len(shape) - 1
        rows = emit(op.reshape(data, [*shape[:kept], -1])) if has_several_axes else data
        result = _normalised(rows, emit, epsilon=float(epsilon.value.numpy().reshape(())), is_centred=True)
        return self._reshaped(result, shape) if has_several_axes else result

    def _rows_of_affine(self, call: Any) -> Any:
        """Return a scale or a shift by channel of what was a norm of rows, on the rows."""
        value, factor = self._value(call.args[0]), call.args[1]
        is_rows = _is_call(value, "relax.reshape") and any(value.args[0].same_as(rows) for rows in self._rows)
        shape, sizes = _static_sizes(call.args[0]), _static_sizes(factor)
        if not is_rows or not sizes or len(value.args[0].ty.shape.values) != 3:
            return None
        if [1] * (len(shape) - len(sizes)) + sizes != [1, shape[1], *[1] * (len(shape) - 2)]:
            return None
        factor = self.builder_.emit(op.reshape(factor, [shape[1], 1]))
        return self._reshaped(relax.Call(call.op, [value.args[0], factor]), shape)

    def _reshaped(self, rows: Any, shape: list[int]) -> Any:
        self._rows.append(rows if isinstance(rows, relax.Var) else self.builder_.emit(rows))
        return op.reshape(self._rows[-1], shape)

    def _value(self, operand: Any) -> Any:
        return self.lookup_binding(operand) if isinstance(operand, relax.Var) else operand


def _is_call(value: Any, name: str) -> bool:
    return isinstance(value, relax.Call) and value.op == tvm.ir.Op.get(name)


def _axes_of(call: Any, rank: int) -> Any:
    """Return the axes of a mean or a variance; without a list it is over all of them."""
    return range(rank) if call.attrs.axis is None else call.attrs.axis


def _static_sizes(data: Any) -> list[int]:
    """Return the sizes of a tensor of float32; none for a single number, open sizes or another type."""
    shape = getattr(data.ty, "shape", None)
    sizes = shape.values if isinstance(shape, relax.ShapeExpr) else []
    is_static = str(data.ty.dtype) == "float32" and all(isinstance(size, tvm.tirx.IntImm) for size in sizes)
    return list(map(int, sizes)) if is_static else []


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
