"""The schedule of an attention that is one function: two products with a softmax between."""

from __future__ import annotations

from typing import Any

from tvm import s_tir

from .accesses import element_bits
from .cpu_pass import SCHEDULED
from .loops import unroll_tile
from .registers import Registers
from .sizes import all_divisors, chunk_count, dividing_lanes, largest_divisor

ATTENTION = "passsearch.attention"
"""Attribute of a function that ``FuseAttention`` made, with the blocks that ``schedule_attention`` names."""

STAGES = (
    *("products", "scores", "lane_maxima", "maxima", "weights"),
    *("results", "lane_sums", "sums", "attention"),
)
"""Names of these blocks, but for ``keys`` before them, or ``lane_products`` where few rows read keys as they are."""


LANE_PRODUCTS = "lane_products"


def is_attention(function: Any) -> bool:
    """Return True if a function computes an attention."""
    return bool(function.attrs) and ATTENTION in function.attrs


def schedule_attention(function: Any, registers: Registers) -> Any:
    """Return the scheduled function.

    The keys are packed first. Then threads share the tiles of rows. A tile goes through all stages while its scores are
    in the nearest caches, and the sums of both products stay in registers. Few rows, a tile for all heads that share
    keys, read these without packing.

    Raises:
        ScheduleError: TVM refuses a step.
    """
    schedule = s_tir.Schedule(function)
    # By their names: the order of the last ones depends on what the output reads first.
    products, scores, lane_maxima, maxima, weights = map(schedule.get_sblock, STAGES[:5])
    results, lane_sums, sums, output = map(schedule.get_sblock, STAGES[5:])
    lanes = registers.bits // element_bits(function.params[-1].dtype)
    (first,) = (block.name_hint for block in map(schedule.get, schedule.get_producers(products)))
    has_few_rows = first == LANE_PRODUCTS
    if not has_few_rows:
        _pack_keys(schedule, schedule.get_sblock("keys"), lanes)
    rows = int(schedule.get(schedule.get_loops(results)[2]).extent)
    if has_few_rows:
        _gather_rows(schedule, output, rows)
    tile, place, inner = _tile_output(schedule, output, rows=rows, lanes=lanes, registers=registers)
    schedule.compute_at(results, place, preserve_unit_loops=True)
    for stage in (sums, lane_sums, weights, maxima, lane_maxima, scores):
        schedule.compute_at(stage, tile, preserve_unit_loops=True)
    if has_few_rows:
        _score_few_rows(schedule, scores, products, lanes=lanes)
    else:
        _tile_scores(schedule, scores, products, lanes=lanes, registers=registers)
    _sum_in_registers(schedule, results, number=3, lanes=int(schedule.get(inner[-1]).extent))
    unroll_tile(schedule, inner)
    for reduction in (lane_maxima, lane_sums):
        _reduce_blocks(schedule, reduction, lanes)
    for reduction in (maxima, sums):
        _reduce_lanes(schedule, reduction)
    _vectorize(schedule, schedule.get_loops(weights)[-1], lanes)
    return schedule.mod["main"].with_attr(SCHEDULED, True)


def _pack_keys(schedule: Any, keys: Any, lanes: int) -> None:
    part, block, step, lane = schedule.get_loops(keys)
    schedule.reorder(part, step, block, lane)
    schedule.parallel(schedule.fuse(part, step))
    _vectorize(schedule, lane, lanes)


def _gather_rows(schedule: Any, output: Any, rows: int) -> None:
    """Make one loop of those over heads that share keys and over their rows."""
    *_, heads, row, _ = schedule.get_loops(output)
    _, members = schedule.split(heads, [None, rows // int(schedule.get(row).extent)], preserve_unit_iters=True)
    schedule.fuse(members, row)


def _tile_output(
    schedule: Any, output: Any, *, rows: int, lanes: int, registers: Registers
) -> tuple[Any, Any, list[Any]]:
    """Return the loop over tiles of rows, that over a tile's parts that fit into registers, and those over a part."""
    *outer, row, column = schedule.get_loops(output)
    width = int(schedule.get(column).extent)
    lanes = dividing_lanes(width, lanes)
    vectors = max(each for each in all_divisors(width // lanes) if each == 1 or _fit(rows, each, registers))
    tile, row = schedule.split(row, [None, rows])
    place, vector, lane = schedule.split(column, [None, vectors, lanes])
    tile = schedule.fuse(*outer, tile)
    # What a tile needs is in allocated memory, which TVM allocates once for all tiles of a chunk.
    chunk, tile = schedule.split(
        tile, [chunk_count(int(schedule.get(tile).extent), registers.threads), None], preserve_unit_iters=True
    )
    schedule.reorder(place, row, vector, lane)
    schedule.parallel(chunk)
    return tile, place, [row, vector, lane]


def _fit(rows: int, vectors: int, registers: Registers) -> bool:
    """Return True if registers hold the sums of a number of vectors in each row, one row of vectors and one value."""
    return rows * vectors + vectors + 1 <= registers.number


def _tile_scores(schedule: Any, scores: Any, products: Any, *, lanes: int, registers: Registers) -> None:
    """Compute the scores of all rows of a tile and of one or two blocks of columns at a time."""
    *_, row, block, lane = schedule.get_loops(scores)
    rows, count, columns = (int(schedule.get(loop).extent) for loop in (row, block, lane))
    blocks = 2 if count % 2 == 0 and _fit(rows, 2 * max(1, columns // lanes), registers) else 1
    place, block = schedule.split(block, [None, blocks])
    schedule.reorder(place, row, block, lane)
    schedule.compute_at(products, place, preserve_unit_loops=True)
    schedule.unroll(row)
    schedule.unroll(block)
    _vectorize(schedule, lane, lanes)
    _sum_in_registers(schedule, products, number=4, lanes=lanes)


def _score_few_rows(schedule: Any, scores: Any, products: Any, *, lanes: int) -> None:
    """Compute the scores of all rows of a tile and of one block of columns at a time, and their sums column by column.

    So a key is loaded once for all rows, and its sums stay in registers.
    """
    *_, row, block, lane = schedule.get_loops(scores)
    schedule.reorder(block, row, lane)
    schedule.compute_at(products, block, preserve_unit_loops=True)
    schedule.unroll(row)
    _vectorize(schedule, lane, lanes)
    (partial,) = schedule.get_producers(products)
    *_, row, _, column = schedule.get_loops(products)
    schedule.reorder(column, row)
    schedule.compute_at(partial, column, preserve_unit_loops=True)
    schedule.unroll(row)
    *_, row, _, _, lane, step = schedule.get_loops(partial)
    schedule.reorder(step, row, lane)
    schedule.unroll(step)
    unroll_tile(schedule, [row, lane])
    initial = schedule.decompose_reduction(partial, step)
    unroll_tile(schedule, [schedule.get_loops(initial)[-4], schedule.get_loops(initial)[-1]])


def _sum_in_registers(schedule: Any, product: Any, *, number: int, lanes: int) -> None:
    """Put the loop of a sum, the last of this number of loops, around the others, which are unrolled."""
    *tile, step = list(schedule.get_loops(product))[-number:]
    if int(schedule.get(tile[-1]).extent) > lanes:
        tile[-1:] = schedule.split(tile[-1], [None, lanes])
    schedule.reorder(step, *tile)
    unroll_tile(schedule, tile)
    initial = schedule.decompose_reduction(product, step)
    unroll_tile(schedule, list(schedule.get_loops(initial))[-len(tile) :])


def _reduce_blocks(schedule: Any, reduction: Any, lanes: int) -> None:
    """Reduce the blocks of all rows of a tile at the same time; one row would wait for each operation to end."""
    *_, row, lane, block = schedule.get_loops(reduction)
    schedule.reorder(block, row, lane)
    schedule.unroll(row)
    _vectorize(schedule, lane, lanes)
    initial = schedule.decompose_reduction(reduction, block)
    schedule.vectorize(schedule.get_loops(initial)[-1])


def _reduce_lanes(schedule: Any, reduction: Any) -> None:
    """Reduce the lanes of all rows of a tile at the same time, likewise."""
    *_, row, lane = schedule.get_loops(reduction)
    schedule.reorder(lane, row)
    schedule.unroll(lane)
    schedule.unroll(row)
    schedule.decompose_reduction(reduction, lane)


def _vectorize(schedule: Any, lane: Any, lanes: int) -> None:
    """Vectorise the innermost loop over the columns of a block, in vectors of the processor."""
    columns = int(schedule.get(lane).extent)
    if columns > lanes:
        outer, lane = schedule.split(lane, [None, largest_divisor(columns, lanes)])
        schedule.unroll(outer)
    schedule.vectorize(lane)
