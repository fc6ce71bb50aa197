"""Converter of ONNX's Range up to a size of an input.

TVM gives such a range a size of its own, which is unrelated to the input's: sums with the input then have no known
shape, and operators refuse them.
"""

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend

_SAME_ELEMENT = ("relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.astype")


class Range(onnx_frontend.Range):  # type: ignore[misc]
    """Converter of Range whose limit is a size."""

    @classmethod
    def _impl_v12(cls, bb: Any, inputs: Any, attr: Any, params: Any) -> Any:
        start, limit, step = (onnx_frontend.get_constant(value, params) for value in inputs[:3])
        size = _size(bb, limit)
        if size is None or _number(start) is None or _number(step) != 1:
            return super()._impl_v12(bb, inputs, attr, params)
        return bb.normalize(relax.op.arange(_number(start), size, 1, str(start.ty.dtype)))


def _size(bb: Any, value: Any, place: int = 0) -> Any:
    """Return the open size that an element of a value is; ``None`` if it is none."""
    if tvm.ir.is_prim_expr(value):
        return value
    if isinstance(value, relax.Var):
        value = bb.lookup_binding(value)
    if isinstance(value, relax.ShapeExpr):
        return value.values[place]
    if not isinstance(value, relax.Call) or not isinstance(value.op, tvm.ir.Op):
        return None
    name = str(value.op.name)
    if name == "relax.shape_of":
        shape = value.args[0].ty.shape
        return shape.values[place] if isinstance(shape, relax.ShapeExpr) else None
    if name == "relax.shape_to_tensor" or (name in _SAME_ELEMENT and _is_whole(value)):
        return _size(bb, value.args[0], place)
    if name == "relax.take" and (index := _number(value.args[1])) is not None:
        return _size(bb, value.args[0], index)
    return None


def _is_whole(call: Any) -> bool:
    """Return True for a change of type or shape of one integer."""
    shape = getattr(call.ty, "shape", None)
    return str(call.ty.dtype).startswith("int") and isinstance(shape, relax.ShapeExpr) and len(shape.values) < 2


def _number(value: Any) -> int | None:
    """Return the number that a constant of one integer is; ``None`` for anything else."""
    if not isinstance(value, GenericConst) or not isinstance(value.value, tvm.runtime.Tensor):
        return None
    array = value.value.numpy()
    return int(array.item()) if array.size == 1 and array.dtype.kind in "iu" else None


RANGES: Mapping[str, Any] = {"Range": Range}
