"""Vectors of values that a thread loads at once, and those that TVM has code for."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Range
from tvm.sym import Analyzer

IF_THEN_ELSE = "prim.if_then_else"


MOST_BITS = 128
"""Bits that one instruction reads or writes at most."""

MOST_INDICES = 4
"""Indices of 32 bits that TVM can put into one vector of CUDA; its code for eight does not compile (0.27)."""


def count_neighbours(block: Any, axis: Any, most: int) -> int:
    """Return how many values along an axis a block can load at once, at most ``most``, a power of two.

    They are neighbours in every buffer that is read, the first of them lies at a multiple of their number, and
    conditions hold for all or none.

    Args:
        block: A block that copies values of fixed sizes, with its producers inlined.
        axis: One of its axes.
        most: The largest number.
    """
    while most > 1 and not _are_neighbours(block, axis, most):
        most //= 2
    return most


def _are_neighbours(block: Any, axis: Any, number: int) -> bool:
    size, dtype, analyzer = int(axis.dom.extent), str(axis.var.ty), Analyzer()
    group, place = tirx.Var("group", dtype), tirx.Var("place", dtype)
    analyzer.bind(group, Range(0, size // number))
    analyzer.bind(place, Range(0, number))
    for each in block.iter_vars:
        if not each.var.same_as(axis.var):
            analyzer.bind(each.var, each.dom)

    def at(value: Any, index: Any) -> Any:
        def change(variable: Any) -> Any:
            return index if variable.same_as(axis.var) else variable

        return analyzer.simplify(tvm_ffi.structural_map(value, (tvm.ir.Var, change)))

    def is_uniform(condition: Any) -> bool:
        return bool(tvm_ffi.structural_equal(at(condition, group * number + place), at(condition, group * number)))

    def is_vector(load: Any) -> bool:
        first, other = (at(_address(load), group * number + each) for each in (0, place))
        is_aligned = analyzer.can_prove_equal(tirx.floormod(first, number), 0)
        is_short = load.source.dtype.bits * number <= MOST_BITS
        return bool(is_short and is_aligned and analyzer.can_prove_equal(other, first + place))

    loads, conditions = _reads(block.body.value)
    return size % number == 0 and all(map(is_vector, loads)) and all(map(is_uniform, conditions))


def has_wide_indices(function: Any) -> bool:
    """Return True if TVM does not see that eight values that are loaded together are neighbours.

    It sees less than ``count_neighbours``: a sum of a multiple of ``index // 40`` and one of ``index % 40`` becomes a
    vector of eight indices.

    Args:
        function: A scheduled function for CUDA.
    """
    passes = s_tir.transform
    lowering = [
        passes.LowerInitBlock(),
        passes.PlanAndUpdateBufferAllocationLocation(),
        passes.ConvertBlocksToOpaque(),
        passes.LiftThreadBinding(),
        passes.CompactBufferAllocation(),
        passes.UnifyThreadBinding(),
        passes.LowerMatchBuffer(),
        passes.StmtSimplify(),
        passes.InjectSoftwarePipeline(),
        passes.LowerOpaqueBlock(),
        tirx.transform.FlattenBuffer(),
        tirx.transform.BF16ComputeLegalize(),
        tirx.transform.NarrowDataType(32),
        passes.LoopPartition(),
        tirx.transform.VectorizeLoop(),
        passes.StmtSimplify(),
    ]
    # A context of its own: no instrument of the caller sees these passes.
    with tvm.transform.PassContext():
        lowered = tvm.transform.Sequential(lowering)(tvm.IRModule({"main": function}))["main"]
    loads: list[Any] = []
    tvm_ffi.structural_walk(lowered.body, (tvm.ir.TensorLoad, loads.append))
    return any(_is_wide(index) for load in loads for index in load.indices)


def _is_wide(index: Any) -> bool:
    return not isinstance(index, tirx.Ramp) and tvm.DataType(str(index.ty)).lanes > MOST_INDICES


def _reads(value: Any) -> tuple[list[Any], list[Any]]:
    """Return what a value reads, and its conditions."""
    loads: list[Any] = []
    calls: list[Any] = []
    tvm_ffi.structural_walk(value, (tvm.ir.TensorLoad, loads.append))
    tvm_ffi.structural_walk(value, (tvm.ir.Call, calls.append))
    return loads, [call.args[0] for call in calls if getattr(call.op, "name", "") == IF_THEN_ELSE]


def _address(load: Any) -> Any:
    """Return the number of values before one in the memory of a buffer."""
    address: Any = 0
    for index, size in zip(load.indices, load.source.shape, strict=True):
        address = address * size + index
    return address
