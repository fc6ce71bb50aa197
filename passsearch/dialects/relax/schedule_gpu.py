"""A schedule for GPUs: products are computed in tiles, and all other kernels by DLight's rules.

Imports only TVM, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.s_tir.dlight import gpu
from tvm.s_tir.dlight.analysis import get_root_block
from tvm.s_tir.dlight.gpu.matmul import (
    auto_inline_consumer_chain,
    auto_inline_producers,
    get_index_map,
    get_reduction_blocks,
)

SCHEDULED = "tirx.is_scheduled"
ORDER = ("Matmul", "GEMV", "Reduction", "GeneralReduction", "Fallback")
"""DLight's rules in TVM's order: the first that fits a kernel schedules it."""

MULTIPROCESSORS = 128
"""About as many as a large GPU has: an H100 has 132, an A100 108."""

MOST_TILES_IN_PARTS = 16 * MULTIPROCESSORS

FEW_TERMS = 32
"""Terms up to which a sum is short: a depthwise convolution of 5 by 5 has 25."""

MOST_UNROLLED, MOST_VECTOR, FINAL_THREADS = 256, 4, 256


def ScheduleGPU(  # noqa: N802
    rule: str | None = None, kernels: dict[str, dict[str, str | None]] | None = None
) -> Any:
    """Return a pass that schedules every function of loops for a GPU.

    Sums of products that can be written as a product of matrices, convolutions among them, are computed in tiles, as
    ``Tile`` says, and short sums by one thread each. For all other functions DLight's rules are tried in TVM's order,
    except that ``GeneralReduction`` leaves sums of products alone: it gives every result a block of threads, which is
    far too much for the nine products of a depthwise convolution.

    Args:
        rule: What is tried first: one of DLight's rules, or a tile such as ``8x16x2x2x32x4``.
        kernels: Another value of ``rule`` by name of the function, as ``{"matmul": {"rule": "GEMV"}}``.

    Raises:
        ValueError: There is no such rule or tile, or a kernel has another setting.
    """
    unknown = {name for settings in (kernels or {}).values() for name in settings} - {"rule"}
    if unknown:
        raise ValueError(f"ScheduleGPU has no setting `{min(unknown)}` of kernels; use `rule`")
    own = {name: settings.get("rule", rule) for name, settings in (kernels or {}).items()}

    def run(module: Any, _context: Any) -> Any:
        target = tvm.target.Target.current(allow_none=False)
        if "gpu" not in target.keys:
            return module
        # FuseTIR makes functions of the groups of FuseOps. After this pass it would drop schedules (``fuse_tir.cc``).
        module = relax.transform.FuseTIR()(module).clone()
        scheduled = {}
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc) and not (function.attrs and SCHEDULED in function.attrs):
                scheduled[name] = _schedule(function, target, own.get(name.name_hint, rule))
        for name, function in scheduled.items():
            module[name] = function
        return module

    for each in (rule, *own.values()):
        _rules(each)
    return tvm.transform.module_pass(run, opt_level=0, name="ScheduleGPU")


def _schedule(function: Any, target: Any, rule: str | None) -> Any:
    """Return a function as the first rule that fits schedules it; itself if none fits."""
    for each in _rules(rule):
        if isinstance(each, gpu.GeneralReduction) and rule != "GeneralReduction" and _sums_products(function):
            continue
        found = each.apply(function, target, False)
        if found is not None:
            schedule = found if isinstance(found, s_tir.Schedule) else found[0]
            return schedule.mod["main"].with_attr(SCHEDULED, True)
    return function


def _rules(rule: str | None) -> list[Any]:
    others = [getattr(gpu, name)() for name in ORDER if name != rule]
    if rule in ORDER:
        return [getattr(gpu, rule)(), *others]
    if rule is None:
        return [_Products(None), _ShortSums(), *others]
    numbers = rule.split("x")
    if len(numbers) != 6 or not all(number.isdigit() and int(number) for number in numbers):
        raise ValueError(
            f"ScheduleGPU has no rule `{rule}`; use {', '.join(ORDER)}, or a tile of six numbers such as 8x16x2x2x32x1"
        )
    return [_Products(Tile(*map(int, numbers))), *others]


class _Products:
    """A rule for sums of products, such as products of matrices and convolutions."""

    def __init__(self, tile: Tile | None) -> None:
        """Prepare the rule.

        Args:
            tile: The tile; ``None`` for the one that suits most products of the same sizes.
        """
        self.tile = tile

    def apply(self, function: Any, _target: Any, _: bool) -> Any:
        """Return the schedule of a function, or ``None`` for one that is no sum of products of this form."""
        try:
            return self._schedule(s_tir.Schedule(function))
        except (s_tir.ScheduleError, AssertionError):  # what comes after the sum cannot be moved into its loops
            return None

    def _schedule(self, schedule: Any) -> Any:
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if sums is None:
            return None
        (main,) = sums
        if not multiplies_and_adds(schedule.get(main)) or get_index_map(schedule.get(main)) is None:
            return None
        # DLight's own rule has tensor cores multiply what has 8 or 16 bits.
        if self.tile is None and any(each.source.dtype.bits < 32 for each in schedule.get(main).reads):
            return None
        inner = [_is_sum_innermost(schedule.get(main), place) for place in (0, 1)]
        normalise(schedule, main)
        sizes = [schedule.get(loop).extent for loop in schedule.get_loops(main)]
        found = (self.tile or usual_tile(sizes)).apply(schedule, main, inner)
        return found if found is not None and _is_bound(found) else None


class _ShortSums:
    """A rule for sums of few terms with operators behind them, such as depthwise convolutions.

    A thread computes one result, and what comes after it. DLight's ``Fallback`` makes two kernels of them, the second
    of which reads from memory what the first has written.
    """

    def apply(self, function: Any, _target: Any, _: bool) -> Any:
        """Return the schedule of a function, or ``None`` for one that is none of these."""
        schedule = s_tir.Schedule(function)
        sums = get_reduction_blocks(schedule, schedule.get_child_blocks(get_root_block(schedule)))
        if sums is None:
            return None
        (main,) = sums
        if len(schedule.get(main).writes) != 1 or not 0 < _terms(schedule.get(main)) <= FEW_TERMS:
            return None
        auto_inline_producers(schedule, main)
        try:
            return schedule if _sum_in_threads(schedule, main) and _is_bound(schedule) else None
        except s_tir.ScheduleError:
            return None


@dataclass(frozen=True)
class Tile:
    """A way to compute C[i, j], the sums of A[i, k] B[j, k], in which a block of threads computes a tile of results.

    All threads of a block load what the next steps of the sum need into shared memory, neighbours in memory by
    neighbouring threads. A small product, such as a convolution on 7 by 7 values, has fewer tiles than a GPU has
    multiprocessors. Its sum can be split: as many times more blocks compute parts of it, which a second kernel adds up.

    Attributes:
        row_threads: Threads of a block along i.
        column_threads: Threads of a block along j.
        rows: Results of a thread along i.
        columns: Results of a thread along j.
        steps: Terms of the sum that are in shared memory together.
        parts: Number of parts of the sum.
    """

    row_threads: int
    column_threads: int
    rows: int
    columns: int
    steps: int
    parts: int

    def __str__(self) -> str:
        """Return the tile as an argument of ``ScheduleGPU``."""
        return "x".join(map(str, astuple(self)))

    def apply(self, schedule: Any, main: Any, inner: list[bool]) -> Any:
        """Return the schedule, or ``None`` for a function of several results whose sums have parts.

        Args:
            schedule: The schedule so far.
            main: Block that multiplies two matrices.
            inner: For A and B, True if values that follow each other along k are neighbours in memory.
        """
        tile = (self.row_threads * self.rows, self.column_threads * self.columns, self.steps * self.parts)
        schedule.pad_einsum(main, [1, *tile])
        if self.parts > 1:
            *_, terms = schedule.get_loops(main)
            part, _ = schedule.split(terms, [self.parts, None])
            total, main = main, schedule.rfactor(part, 0)
        result = self._bind(schedule, main, inner)
        if self.parts > 1:
            return schedule if _sum_in_threads(schedule, total) else None
        auto_inline_consumer_chain(schedule, result)
        return schedule

    def _bind(self, schedule: Any, main: Any, inner: list[bool]) -> Any:
        """Bind the loops of a block to threads; return the block that writes its results."""
        batch, i, j, *parts, k = schedule.get_loops(main)
        # The results of one thread lie apart, so that neighbouring threads read and write neighbours in memory.
        row_block, row, row_thread = schedule.split(i, [None, self.rows, self.row_threads])
        column_block, column, column_thread = schedule.split(j, [None, self.columns, self.column_threads])
        outer, step = schedule.split(k, [None, self.steps])
        threads = (row, column, row_thread, column_thread)
        schedule.reorder(*parts, batch, row_block, column_block, *threads, outer, step)
        # Images have many rows, and CUDA has at most 65,535 blocks along y.
        schedule.bind(schedule.fuse(*parts, batch, row_block), "blockIdx.x")
        schedule.bind(column_block, "blockIdx.y")
        for loop, name in zip(threads, ("vthread.y", "vthread.x", "threadIdx.y", "threadIdx.x"), strict=True):
            schedule.bind(loop, name)
        schedule.annotate(column_thread, "pragma_auto_unroll_max_step", MOST_UNROLLED)
        schedule.annotate(column_thread, "pragma_unroll_explicit", 1)
        result = schedule.cache_write(main, 0, "local")
        schedule.reverse_compute_at(result, column_thread, preserve_unit_loops=True)
        for place, size in ((0, self.row_threads * self.rows), (1, self.column_threads * self.columns)):
            self._load(schedule, main, place, outer, size=size, is_sum_innermost=inner[place])
        schedule.decompose_reduction(main, outer)
        return result

    def _load(self, schedule: Any, main: Any, place: int, outer: Any, *, size: int, is_sum_innermost: bool) -> None:
        """Load an operand into shared memory.

        Args:
            schedule: The schedule.
            main: Block that reads the operand.
            place: Place of the operand.
            outer: Loop over parts of the sum.
            size: Number of rows or columns of the tile.
            is_sum_innermost: True if terms that follow each other in the sum are neighbours in memory.
        """
        block = schedule.cache_read(main, place, "shared")
        schedule.compute_at(block, outer, preserve_unit_loops=True)
        *_, first, second = schedule.get_loops(block)
        if not is_sum_innermost:
            schedule.reorder(second, first)
            first, second = second, first
        threads = self.row_threads * self.column_threads
        width = math.gcd(MOST_VECTOR, max(size * self.steps // threads, 1)) if is_sum_innermost else 1
        loops = schedule.split(schedule.fuse(first, second), [None, self.row_threads, self.column_threads, width])
        schedule.bind(loops[1], "threadIdx.y")
        schedule.bind(loops[2], "threadIdx.x")
        schedule.vectorize(loops[3])
        schedule.storage_align(block, 0, axis=1, factor=8, offset=max(width, 2))
        auto_inline_producers(schedule, block)


def usual_tile(sizes: list[Any]) -> Tile:
    """Return the tile that suits most products of these sizes: batch, rows, columns and terms of the sum.

    On an H100, at batch size 1, all products of ResNet-50, of MobileNetV2 or of BERT-base together take 2 to 4 %
    longer by these tiles than by the best of fifteen settings for each (docs/gpu.md).
    """
    usual = Tile(8, 16, 2, 2, 32, 1)
    if not all(isinstance(size, tirx.IntImm) for size in sizes):
        return usual
    batch, rows, columns, terms = map(int, sizes)
    tiles = batch * math.ceil(rows / 16) * math.ceil(columns / 32)
    if tiles <= MULTIPROCESSORS and terms >= 384:
        return Tile(8, 16, 2, 2, 32, 8)
    # The parts of many tiles would take memory, and the GPU is busy without them.
    if tiles <= MOST_TILES_IN_PARTS and terms >= 256:
        return Tile(8, 16, 4, 2, 32, 4)
    return Tile(8, 16, 4, 2, 32, 1) if tiles > MULTIPROCESSORS else usual


def normalise(schedule: Any, main: Any) -> None:
    """Bring a block into the form of a product of matrices."""
    operands = [schedule.reindex(main, each) for each in (("read", 0), ("read", 1), ("write", 0))]
    own, *maps = get_index_map(schedule.get(main))
    for block, side, index_map in zip(operands, ("write", "write", "read"), maps, strict=True):
        schedule.transform_layout(block, (side, 0), index_map)
    schedule.transform_block_layout(main, own)


def _is_sum_innermost(block: Any, place: int) -> bool:
    """Return True if terms of the sum that follow each other are neighbours in the memory of an operand."""
    variables = {each.var: each.iter_type for each in block.iter_vars}
    found: list[Any] = []
    tvm_ffi.structural_walk(block.reads[place].region[-1].min, (tirx.Var, found.append))
    return any(variables.get(each) == tirx.IterVar.CommReduce for each in found)


def _sum_in_threads(schedule: Any, total: Any) -> bool:
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
    return math.prod(map(int, own_loops)) == _terms(schedule.get(total))


def _terms(block: Any) -> int:
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


def _is_bound(schedule: Any) -> bool:
    """Return True if all blocks run in threads; one that computes another result may not."""
    blocks = schedule.get_child_blocks(get_root_block(schedule))
    return all(
        any(schedule.get(loop).thread_binding is not None for loop in schedule.get_loops(block)) for block in blocks
    )


def _sums_products(function: Any) -> bool:
    """Return True for a function that adds up products, and not single values."""
    found = False

    def visit(block: Any) -> None:
        nonlocal found
        found |= block.init is not None and len(block.reads) > 1

    tvm_ffi.structural_walk(function.body, (s_tir.stmt.SBlock, visit))
    return found
