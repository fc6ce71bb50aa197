"""The size of the part of a sum of products that stays in vector registers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

from .accesses import BYTE, Access, Packing, element_bits
from .registers import Registers
from .sizes import MIN_CHUNKS, dividing_lanes, imbalance, part_count, vector_lanes

MIN_LANES = 4
"""Least elements of a vector; with fewer, loops are not vectorised."""

LOAD_OF_WEIGHTS = 0.3
"""Time to load a vector of weights, as a multiple of that of a multiplication."""

SUMS_IN_FLIGHT = 8
"""Vectors of sums that keep a processor busy, which starts two additions at a time and ends them four cycles later."""

MAX_STACK_BYTES = 1024
"""Size from which TVM allocates a buffer instead of putting it on the stack, where LLVM keeps it in registers only.

Source: ``kMaxStackAlloca`` in ``tvm/runtime/device_api.h``.
"""

OVERLAP_COST = 1.05
"""Time of tiles that overlap, as a multiple of that of others: the model cannot tell a smaller gain."""

COPIES_OF_SUMS = 16
"""Time to store sums in allocated memory and load them, as a multiple of that of one step; once for every sum."""

COPIES_IN_CACHE = 0.5
"""The same at every prefetch, when the sums are in the nearest cache."""

LEAST_OVERLAPPING_VECTORS = 8
"""Vectors of a single row from which packed weights repeat columns, unless no vector divides the row. With fewer, a
large part would be computed twice."""

WAYS, WAY_BYTES = 8, 4096
"""The nearest cache of most processors holds eight lines of those whose addresses differ by multiples of 4 KiB.

With 14 rows of 1,024 channels a product takes twice the time.
"""


@dataclass(frozen=True)
class Settings:
    """How one function is tiled; see ``ScheduleCPU``."""

    rows: int | None
    vectors: int | None
    keep_weights: bool | None
    prefetch: int | None

    def __post_init__(self) -> None:
        limits = (("rows", self.rows, 1), ("vectors", self.vectors, 1), ("prefetch", self.prefetch, 0))
        for name, value, least in limits:
            if value is not None and value < least:
                raise ValueError(f"`{name}` of ScheduleCPU is {least} or more, or null; got {value}")


@dataclass(frozen=True)
class Tiling:
    """The part of a sum of products that stays in registers.

    Attributes:
        vector: The axis of the output that vectors are along.
        operand: The operand that is read in vectors.
        row: The axis of the output that rows are along; the rows share the operand's vectors. ``None`` without rows.
        lanes: Elements of a vector.
        vectors: Vectors of one row.
        rows: Rows of a tile.
        packing: New layout of the operand; ``None`` if it stays as it is.
        keep_weights: True if the operand is larger than the other one.
        is_product: True if rows are along the only axis of the other operand.
        uses: Number of tiles that use the same vectors of the operand.
        last_steps: Size of the last axis of the sum.
        is_one_stretch: True if the operand has one dimension beside those of the sum, so that what several vectors in a
            row need is contiguous once the operand is packed.
    """

    vector: Any
    operand: Access
    row: Any
    lanes: int
    vectors: int
    rows: int
    packing: Packing | None
    keep_weights: bool
    is_product: bool
    uses: int
    last_steps: int
    is_one_stretch: bool
    step_elements: int

    @property
    def element_bytes(self) -> int:
        """Size of an element of the operand that is read in vectors."""
        return element_bits(self.operand.buffer.dtype) // BYTE

    @classmethod
    def choose(
        cls,
        block: Any,
        reads: list[Access],
        *,
        lanes: int,
        registers: Registers,
        settings: Settings,
        constants: list[Access],
        step_elements: int = 1,
        prefetch_steps: int = 0,
    ) -> Tiling | None:
        """Return the best tiling; ``None`` if no axis of the output is fit for vectors.

        Args:
            block: A sum of products.
            reads: Its two operands.
            lanes: Elements of a register.
            registers: The processor's registers.
            settings: Upper limits.
            constants: Those operands that are constant.
            step_elements: Elements of the constant one that a step reads for each lane.
            prefetch_steps: Steps of the sum between two prefetches; 0 if there are none.
        """
        axis = _vector_axis(block, reads, lanes=lanes, constants=constants)
        if axis is None:
            return None
        vector, operand, lanes = axis.vector, axis.operand, axis.lanes
        spatial = [each for each in block.iters if each.kind == "S"]
        other = [each for each in axis.single if not operand.has(each) and each.dom > 1]
        row = other[-1] if other else None
        data = next((access for access in reads if row is not None and access.has(row)), None)
        row_count = row.dom if row is not None else 1
        summing = [each.dom for each in block.iters if each.kind != "S"]
        rows, vectors = _tile_size(
            row_count,
            vector.dom,
            lanes=lanes,
            registers=registers,
            settings=settings,
            steps=math.prod(summing),
            prefetch_steps=prefetch_steps or math.inf,
            vector_bytes=lanes * max(element_bits(access.buffer.dtype) for access in reads) // BYTE,
            cached_rows=_cached_rows(row, data) if data is not None else 1,
            can_overlap=axis.is_packed and vector is spatial[-1],
            others=math.prod(each.dom for each in spatial) // (row_count * vector.dom),
        )
        packing, dimension = None, operand.dimension(vector)
        if axis.is_packed and dimension is not None:
            width = lanes * vectors
            is_whole = vector.dom % width == 0 and step_elements == 1
            packing = Packing(dimension, vector.dom, lanes if is_whole else width)
        return cls(
            vector=vector,
            operand=operand,
            row=row,
            lanes=lanes,
            vectors=vectors,
            rows=rows,
            packing=packing,
            keep_weights=all(operand.size >= access.size for access in reads),
            is_product=len(other) == 1,
            uses=math.prod(block.dom()) * step_elements // (operand.size * row_count) * part_count(row_count, rows),
            last_steps=summing[-1],
            is_one_stretch=operand.size == vector.dom * math.prod(summing) * step_elements,
            step_elements=step_elements,
        )


@dataclass(frozen=True)
class _VectorAxis:
    """The axis of the output that vectors are along.

    Attributes:
        vector: The axis.
        operand: The only operand that has the axis.
        lanes: Elements of a vector.
        is_packed: True if the operand is constant and gets a layout in which every vector is contiguous.
        single: All axes of the output that only one operand has.
    """

    vector: Any
    operand: Access
    lanes: int
    is_packed: bool
    single: list[Any]

    @property
    def fitness(self) -> int:
        """0 if vectors do not fit, 2 if the operand is packed, and 1 between the two."""
        if self.lanes < MIN_LANES:
            return 0
        return 2 if self.is_packed else int(self.operand.is_contiguous(self.vector))


def _vector_axis(block: Any, reads: list[Access], *, lanes: int, constants: list[Access]) -> _VectorAxis | None:
    """Return the axis that is fit best for vectors of up to ``lanes`` elements; ``None`` if none is."""
    spatial = [axis for axis in block.iters if axis.kind == "S"]
    readers = {id(axis): [access for access in reads if access.has(axis)] for axis in spatial}
    # If vectors are along an axis of one operand only, a value of the other operand multiplies a whole vector.
    single = [axis for axis in spatial if len(readers[id(axis)]) == 1]
    constant_places = {access.place for access in constants}

    def as_vector(axis: Any) -> _VectorAxis:
        (operand,) = readers[id(axis)]
        divisor = dividing_lanes(axis.dom, lanes)
        is_constant = operand.place in constant_places and operand.dimension(axis) is not None
        is_single_row = all(each.dom == 1 for each in single if each is not axis)
        is_short = is_single_row and divisor >= MIN_LANES and axis.dom < lanes * LEAST_OVERLAPPING_VECTORS
        if is_constant and axis.dom >= lanes and not is_short:
            return _VectorAxis(axis, operand, lanes, is_packed=True, single=single)
        is_packed = is_constant and divisor >= MIN_LANES
        # Vectors that are not packed must be along the last axis of what is stored to overlap.
        whole = vector_lanes(axis.dom, lanes) if axis is spatial[-1] and not is_packed else divisor
        return _VectorAxis(axis, operand, whole, is_packed, single)

    def fit(axis: _VectorAxis) -> tuple[int, int, bool]:
        return axis.fitness, axis.lanes, axis.vector.dom % max(axis.lanes, 1) == 0

    best = max(map(as_vector, single), key=fit, default=None)
    return best if best is not None and best.fitness else None


def _cached_rows(row: Any, data: Access) -> int:
    """Return the number of rows whose data fit in the nearest cache together, however large that is."""
    between = math.gcd(data.stride_bytes(row), WAY_BYTES)
    return WAYS * WAY_BYTES // between if between else row.dom


def _tile_size(
    row_count: int,
    columns: int,
    *,
    lanes: int,
    registers: Registers,
    settings: Settings,
    steps: int,
    prefetch_steps: float,
    vector_bytes: int,
    cached_rows: int,
    others: int,
    can_overlap: bool,
) -> tuple[int, int]:
    """Return the rows of a tile and the vectors in each row.

    Args:
        row_count: Number of rows; the last tile overlaps with the one before where they are no multiple of a tile's.
        columns: Number of elements in a row; tiles overlap likewise if they are no multiple of ``lanes``.
        lanes: Elements of a vector.
        registers: The processor's registers.
        settings: Upper limits.
        steps: Number of products in a sum.
        prefetch_steps: Number of those between two prefetches.
        vector_bytes: Size of a vector.
        cached_rows: Number of rows from which data are evicted from the nearest cache before they are used again.
        others: Number of parts that the output's other axes make, which have the same tiles.
        can_overlap: True if tiles can overlap where whole vectors divide the columns as well.
    """
    assert settings.rows is not None
    most = min(settings.rows, settings.vectors or settings.rows)
    heights = range(1, min(row_count, settings.rows) + 1)
    vector_count, rest = divmod(columns, lanes)
    any_width = can_overlap or rest > 0
    widths = [width for width in range(1, min(vector_count, most) + 1) if any_width or vector_count % width == 0]
    sizes = [
        (height, width)
        for height, width in itertools.product(heights, widths)
        if height * width <= settings.rows and height * width + width < registers.number
    ]

    def cost(size: tuple[int, int]) -> tuple[bool, float]:
        """Return whether threads have too few tiles, and the time of a product as a multiple of an instruction's.

        The first counts with one row only: with more rows, a wider tile reads the data less often.
        """
        height, width = size
        tiles = others * part_count(row_count, height) * part_count(columns, width * lanes)
        is_uneven = row_count == 1 and tiles < max(MIN_CHUNKS, registers.threads)
        sums = height * width
        # For every step a tile loads one value for each row and the vectors of the weights.
        loads = (registers.load_of_data * height + LOAD_OF_WEIGHTS * width) / sums
        if width == 1:
            loads += registers.own_load
        # Large tiles are in allocated memory before and after the loop over the steps, and around a prefetch.
        is_large = sums * vector_bytes >= MAX_STACK_BYTES
        copies = COPIES_OF_SUMS / steps + COPIES_IN_CACHE / prefetch_steps if is_large else 0
        evictions = max(0, height / cached_rows - 1)
        # Where tiles overlap, some elements are computed twice.
        computed = _covered(row_count, height) * _covered(columns, width * lanes) / (row_count * columns)
        overlap = computed * OVERLAP_COST if computed > 1 else 1
        stalls = max(1, SUMS_IN_FLIGHT / sums, registers.stream_of_weights / height)
        return is_uneven, imbalance(tiles, registers.threads) * overlap * (stalls + loads + copies + evictions)

    return min(sizes, key=cost)


def _covered(size: int, part: int) -> int:
    """Return the size that whole parts cover."""
    return part_count(size, part) * part
