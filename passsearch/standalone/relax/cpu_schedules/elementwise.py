"""What an elementwise block allows: one loop over all elements, and elements that are computed twice."""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.sym import Analyzer, detect_linear_equation

from .accesses import mentions, substitute
from .overlap import INDEX
from .sizes import largest_divisor
from .tiling import MIN_LANES

REPEATS = (2, 3, 4)
"""Numbers of neighbours that resizes to the nearest element repeat."""


def is_uniform(schedule: Any, block: Any) -> bool:
    """Return True if a block reads all buffers at the indices that it writes, and computes nothing from these."""
    statement = schedule.get(block.block_rv)
    if _computes_with_axes(statement) and can_be_computed_twice(schedule, block.block_rv):
        return False
    written = _indices(statement.writes[0])
    return all(tvm_ffi.structural_equal(_indices(read), written) for read in statement.reads)


def can_be_flat(schedule: Any, block: Any) -> bool:
    """Return True if vectors of a uniform block may go on in the next row, and the last one overlap."""
    is_plain = all(str(axis.dom.extent.ty) == INDEX for axis in schedule.get(block.block_rv).iter_vars)
    return is_plain and has_equal_shapes(schedule, block) and can_be_computed_twice(schedule, block.block_rv)


def has_equal_shapes(schedule: Any, block: Any) -> bool:
    """Return True if a block reads buffers of the shape of its result; a row of a longer one ends elsewhere."""
    statement = schedule.get(block.block_rv)
    shape = list(statement.writes[0].source.shape)
    return all(tvm_ffi.structural_equal(list(read.source.shape), shape) for read in statement.reads)


def uniform_lanes(schedule: Any, block: Any, most: int) -> int:
    """Return the elements of a vector along all axes as one, of ``most`` in a register; 0 if TVM sees no such vectors.

    TVM divides the place of an element by the elements of a vector for each axis whose stride is a multiple of them. It
    sees that elements are neighbours if it does so for all axes or for none.
    """
    sizes = block.dom()
    lanes = largest_divisor(math.prod(sizes), most)
    divides = {math.prod(sizes[axis:]) % lanes == 0 for axis in range(1, len(sizes))}
    is_mixed = len(divides) > 1
    lanes = math.gcd(sizes[-1], lanes) if is_mixed else lanes
    return lanes if has_equal_shapes(schedule, block) and (lanes >= MIN_LANES or not is_mixed) else 0


def repeats(statement: Any) -> int:
    """Return how many neighbours along the last axis read the same elements, where these are neighbours too; else 1.

    LLVM makes vectors of a loop over such groups, while TVM would read the elements of a vector one by one.
    """
    axis = statement.iter_vars[-1]
    size = axis.dom.extent
    indices = [index for read in statement.reads for index in _indices(read) if mentions(index, axis.var)]
    if not isinstance(size, tirx.IntImm) or str(size.ty) != INDEX or not indices or len(statement.writes) != 1:
        return 1
    for count in REPEATS:
        if int(size) % count == 0 and all(_repeats(index, axis.var, count, int(size) // count) for index in indices):
            return count
    return 1


def _repeats(index: Any, axis: Any, count: int, groups: int) -> bool:
    """Return True if all places of a group have one index, and the next group the next index."""
    group, analyzer = tirx.Var("group", INDEX), Analyzer()
    analyzer.bind(group, Range(0, groups))
    places = [analyzer.simplify(substitute(index, {axis: group * count + place})) for place in range(count)]
    linear = detect_linear_equation(places[0], [group])
    is_neighbour = bool(linear) and isinstance(linear[0], tirx.IntImm) and int(linear[0]) == 1
    return is_neighbour and all(tvm_ffi.structural_equal(place, places[0]) for place in places[1:])


def can_be_computed_twice(schedule: Any, block: Any) -> bool:
    """Return True if no result of a block may take the place of its operand.

    TVM stores an intermediate result where the intermediate operand was that is read at the same place.

    Args:
        schedule: The schedule.
        block: The block as a variable of the schedule.
    """
    statement, params = schedule.get(block), schedule.mod["main"].params

    def inner(regions: Any) -> list[Any]:
        return [each for each in regions if not any(param.same_as(each.source) for param in params)]

    analyzer = Analyzer()
    for axis in statement.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    pairs = [(read, write) for write in inner(statement.writes) for read in inner(statement.reads)]
    return not any(_may_be_one(read, write, analyzer) for read, write in pairs)


def _may_be_one(read: Any, write: Any, analyzer: Any) -> bool:
    """Return True if the elements of two regions may have one place in memory; axes of size 1 do not change it."""
    (sizes, indices), (others, other_indices) = _without_units(read), _without_units(write)
    if not tvm_ffi.structural_equal(sizes, others):
        return math.prod(map(int, sizes)) == math.prod(map(int, others)) if _are_known(sizes, others) else True
    # A reshape and its inverse are `v // 4 * 4 + v % 4`, which is `v`.
    return all(analyzer.can_prove_equal(one, other) for one, other in zip(indices, other_indices, strict=True))


def _without_units(region: Any) -> tuple[list[Any], list[Any]]:
    """Return the sizes and the indices of a region's axes, without those of size 1."""
    pairs = [
        (size, bounds.min)
        for bounds, size in zip(region.region, region.source.shape, strict=True)
        if not (isinstance(size, tirx.IntImm) and int(size) == 1)
    ]
    return [size for size, _ in pairs], [index for _, index in pairs]


def _are_known(*shapes: list[Any]) -> bool:
    return all(isinstance(size, tirx.IntImm) for shape in shapes for size in shape)


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
