"""What sums are, and sums that a thread computes for each of its results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir.dlight.analysis import get_root_block
from tvm.s_tir.dlight.gpu.matmul import get_index_map

FINAL_THREADS = 256


def normalise(schedule: Any, main: Any) -> None:
    """Bring a block into the form of a product of matrices."""
    operands = [schedule.reindex(main, each) for each in (("read", 0), ("read", 1), ("write", 0))]
    own, *maps = get_index_map(schedule.get(main))
    for block, side, index_map in zip(operands, ("write", "write", "read"), maps, strict=True):
        schedule.transform_layout(block, (side, 0), index_map)
    schedule.transform_block_layout(main, own)


def is_sum_innermost(block: Any, place: int) -> bool:
    """Return True if terms of the sum that follow each other are neighbours in the memory of an operand."""
    variables = {each.var: each.iter_type for each in block.iter_vars}
    found: list[Any] = []
    tvm_ffi.structural_walk(block.reads[place].region[-1].min, (tirx.Var, found.append))
    return any(variables.get(each) == tirx.IterVar.CommReduce for each in found)


def sum_in_threads(schedule: Any, total: Any) -> bool:
    """Have every sum computed by the thread that writes a result of the function.

    Returns False if there are several results that need sums, or a result needs several sums.
    """
    own = schedule.get(total).name_hint
    after = _reachable(schedule, total, schedule.get_consumers)
    ends = [name for name, block in after.items() if not schedule.get_consumers(block)]
    if len(ends) != 1:
        return False
    last = after[ends[0]]
    before = _reachable(schedule, total, schedule.get_producers)
    for name, block in _reachable(schedule, last, schedule.get_producers).items():
        if name != own and name not in before:
            schedule.compute_inline(block)
    loops = schedule.split(schedule.fuse(*schedule.get_loops(last)), [None, FINAL_THREADS])
    schedule.bind(loops[0], "blockIdx.x")
    schedule.bind(loops[1], "threadIdx.x")
    schedule.compute_at(total, loops[1], preserve_unit_loops=True)
    schedule.set_scope(total, 0, "local")
    own_loops = [schedule.get(loop).extent for loop in schedule.get_loops(total)[len(loops) :]]
    return math.prod(map(int, own_loops)) == count_terms(schedule.get(total))


def count_terms(block: Any) -> int:
    """Return the number of terms of a sum; 0 if it is not fixed."""
    sizes = [each.dom.extent for each in block.iter_vars if each.iter_type == tirx.IterVar.CommReduce]
    return math.prod(map(int, sizes)) if all(isinstance(size, tirx.IntImm) for size in sizes) else 0


def _reachable(schedule: Any, block: Any, neighbours: Callable[[Any], Iterable[Any]]) -> dict[str, Any]:
    """Return the blocks that neighbours, and theirs, lead to, by name."""
    found: dict[str, Any] = {}
    new = list(neighbours(block))
    while new:
        each = new.pop()
        if schedule.get(each).name_hint not in found:
            found[schedule.get(each).name_hint] = each
            new += neighbours(each)
    return found


def is_bound(schedule: Any) -> bool:
    """Return True if all blocks run in threads; one that computes another result may not."""
    blocks = schedule.get_child_blocks(get_root_block(schedule))
    return all(
        any(schedule.get(loop).thread_binding is not None for loop in schedule.get_loops(block)) for block in blocks
    )


def multiplies_and_adds(block: Any) -> bool:
    """Return True for a sum of products of two tensors that begins at 0.

    Products are padded with zeros, which is right for no other sum.
    """
    begin, store = block.init, block.body
    if not isinstance(begin, tirx.BufferStore) or not isinstance(store, tirx.BufferStore):
        return False  # two results, or one that goes on where another function ended
    if not isinstance(begin.value, (tirx.FloatImm, tirx.IntImm)) or begin.value.value != 0:
        return False
    if not isinstance(store.value, tirx.Add):
        return False
    product = next((each for each in (store.value.a, store.value.b) if isinstance(each, tirx.Mul)), None)
    return product is not None and all(
        isinstance(_uncast(each), tvm.ir.expr.TensorLoad) for each in (product.a, product.b)
    )


def _uncast(value: Any) -> Any:
    return _uncast(value.value) if isinstance(value, tirx.Cast) else value


def sums_products(function: Any) -> bool:
    """Return True for a function that adds up products, and not single values."""
    found = False

    def visit(block: Any) -> None:
        nonlocal found
        found |= block.init is not None and len(block.reads) > 1

    tvm_ffi.structural_walk(function.body, (s_tir.stmt.SBlock, visit))
    return found


def has_groups(function: Any) -> bool:
    """Return True for a sum of products that divides places of its results, as a convolution of groups does."""
    found: list[Any] = []

    def visit(block: Any) -> None:
        if block.init is not None and len(block.reads) > 1:
            for each in block.reads:
                tvm_ffi.structural_walk(each, (tirx.FloorDiv, found.append))

    tvm_ffi.structural_walk(function.body, (s_tir.stmt.SBlock, visit))
    return bool(found)
