"""What an elementwise block allows: one loop over all elements, and elements that are computed twice."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from .accesses import mentions
from .overlap import INDEX


def is_uniform(schedule: Any, block: Any) -> bool:
    """Return True if a block reads all buffers at the indices that it writes, and computes nothing from these."""
    statement = schedule.get(block.block_rv)
    if _computes_with_axes(statement) and can_be_computed_twice(schedule, block):
        return False
    written = _indices(statement.writes[0])
    return all(tvm_ffi.structural_equal(_indices(read), written) for read in statement.reads)


def can_be_flat(schedule: Any, block: Any) -> bool:
    """Return True if vectors of a uniform block may go on in the next row, and the last one overlap."""
    axes = schedule.get(block.block_rv).iter_vars
    return can_be_computed_twice(schedule, block) and all(str(axis.dom.extent.ty) == INDEX for axis in axes)


def can_be_computed_twice(schedule: Any, block: Any) -> bool:
    """Return True if no result of a block may take the place of its operand.

    TVM stores an intermediate result where the intermediate operand was that is read at the same indices.
    """
    statement, params = schedule.get(block.block_rv), schedule.mod["main"].params
    written = statement.writes[0]
    if any(param.same_as(written.source) for param in params):
        return True
    inner = [read for read in statement.reads if not any(param.same_as(read.source) for param in params)]
    return not any(tvm_ffi.structural_equal(_indices(read), _indices(written)) for read in inner)


def _computes_with_axes(statement: Any) -> bool:
    """Return True if a value depends on an axis otherwise than by what is read."""

    def without_indices(read: Any) -> Any:
        return tirx.const(0, read.source.dtype)

    value = getattr(statement.body, "value", None)
    if value is None:  # several stores
        return False
    value = tvm_ffi.structural_map(value, (tvm.ir.TensorLoad, without_indices))
    return any(mentions(value, axis.var) for axis in statement.iter_vars)


def _indices(region: Any) -> list[Any]:
    return [bounds.min for bounds in region.region]
