"""Grouped convolutions, whose output channels become two axes: groups, and the members of a group.

Each group reads data of its own, so an axis over all channels stands in the indices of both operands, and no value of
the data multiplies a whole vector of weights. Along the members of one group it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.sym import Analyzer

from .accesses import Access, Packing
from .loops import reader_of
from .tiling import MIN_LANES


@dataclass(frozen=True)
class Groups:
    """The groups of one convolution.

    Attributes:
        place: Place of the axis of all channels among the axes of the block.
        members: Output channels of a group.
        weights: The operand that is read at every channel.
        packing: Layout of the weights in which those of a group lie together.
    """

    place: int
    members: int
    weights: Access
    packing: Packing

    @classmethod
    def find(cls, block: Any, reads: list[Access], *, constants: list[Access]) -> Groups | None:
        """Return the groups of a sum of products; ``None`` without groups or with weights that are computed."""
        constant_places = {access.place for access in constants}
        candidates = [access for access in reads if access.place in constant_places]
        for place, axis in enumerate(block.iters):
            if axis.kind != "S" or not all(access.has(axis) for access in reads):
                continue
            weights = next((access for access in candidates if access.dimension(axis) is not None), None)
            sizes = {size for access in reads if access is not weights for size in access.divisors(axis)}
            if weights is None or len(sizes) != 1:
                continue
            (members,) = sizes
            dimension = weights.dimension(axis)
            if dimension is not None and members >= MIN_LANES and axis.dom % members == 0 and axis.dom > members:
                return cls(place, members, weights, Packing(dimension, axis.dom, members))
        return None

    def split(self, schedule: Any, block: Any) -> Any:
        """Give the convolution and the block that reads it both axes; return the new schedule."""
        reader = reader_of(schedule, block)
        write = Access(schedule.get(block.block_rv).writes[0], 0)
        channels = write.dimension(block.iters[self.place])
        assert channels is not None
        self._split_axis(schedule, reader, self._axis_of(schedule.get(reader), write.buffer, channels))
        self._split_axis(schedule, block.block_rv, self.place)
        schedule.transform_layout(block.block_rv, ("read", self.weights.place), self.packing.index)
        schedule.transform_layout(block.block_rv, ("write", 0), lambda *indices: self._split(indices, channels))
        return s_tir.Schedule(_simplified(schedule.mod["main"], schedule.get(block.block_rv)))

    @staticmethod
    def _axis_of(reader: Any, sums: Any, dimension: int) -> int:
        """Return the place of the axis by which a block reads a dimension of the sums."""
        (read,) = [region for region in reader.reads if region.source.same_as(sums)]
        return next(
            place for place, axis in enumerate(reader.iter_vars) if axis.var.same_as(read.region[dimension].min)
        )

    def _split_axis(self, schedule: Any, block: Any, place: int) -> None:
        number = len(schedule.get(block).iter_vars)
        axes = tirx.IndexMap.from_func(lambda *indices: self._split(indices, place), ndim=number)
        schedule.transform_block_layout(block, axes)

    def _split(self, indices: Sequence[Any], place: int) -> list[Any]:
        """Return indices with that of the channels as that of the group and that in the group."""
        channel = indices[place]
        return [*indices[:place], channel // self.members, channel % self.members, *indices[place + 1 :]]


def _simplified(function: Any, block: Any) -> Any:
    """Return the function with the indices of a block as they are by the sizes of its axes: ``m // members`` is 0."""
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)

    def simplify(value: Any) -> Any:
        return analyzer.simplify(value) if str(value.ty).startswith("int") else value

    return tvm_ffi.structural_map(function, (tirx.Add, simplify))
