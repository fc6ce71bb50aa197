"""Changes of functions without a schedule: of the blocks of sums, and of the loops around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize

from .overlap import INDEX

WIDENED = "passsearch.widened"
"""Annotation of a block that needs registers beside sums and factors, as to widen one of these: how many."""

STEP_ELEMENTS = "passsearch.step_elements"
"""Annotation of a block: how many elements of the weights it reads at a step of the sum for each column."""

KEPT = "passsearch.kept"
"""Annotation of a block whose loops no schedule changes."""


def with_product(
    block: Any, product: Any, *, reads: Sequence[Any], iters: Sequence[Any] = (), annotations: Any = None
) -> Any:
    """Return a block that adds up another product."""
    result, indices = block.body.buffer, list(block.body.indices)
    store = tirx.BufferStore(result, tirx.BufferLoad(result, indices) + product, indices)
    notes = {**block.annotations, WIDENED: 1, **(annotations or {})}
    return SBlock(iters or block.iter_vars, reads, block.writes, block.name_hint, store, block.init, annotations=notes)


def replace_block(body: Any, new: Any) -> Any:
    """Return a function's body with another block in place of the one of its name."""

    def changed(realize: Any) -> Any:
        return new if realize.block.name_hint == new.block.name_hint else realize

    return tvm_ffi.structural_map(body, (SBlockRealize, changed))


def insert_before(body: Any, name: str, nests: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """Return a function's body with loops before those of a block, and with the buffers that they write."""
    statements, place = statements_around(body, name)
    statements[place:place] = nests
    return with_statements(body, statements, buffers)


def statements_around(body: Any, name: str) -> tuple[list[Any], int]:
    """Return the loops of a function one after another, and the place of those that have a block of this name."""
    root = body.block
    statements = [*root.body.seq] if isinstance(root.body, tirx.SeqStmt) else [root.body]
    names = [[each.block.name_hint for each in leaf_blocks(statement)] for statement in statements]
    return statements, next(place for place, each in enumerate(names) if name in each)


def with_statements(body: Any, statements: Sequence[Any], buffers: Sequence[Any]) -> Any:
    """Return a function's body of these loops, with further buffers."""
    root = body.block
    changed = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        tirx.SeqStmt(statements),
        alloc_buffers=[*root.alloc_buffers, *buffers],
        annotations=root.annotations,
    )
    return SBlockRealize(body.iter_values, body.predicate, changed)


def elementwise(name: str, result: Any, value: Callable[[Sequence[Any]], Any]) -> Any:
    """Return loops that store a value for each element of a buffer."""
    axes = [tirx.Var(f"v{place}", INDEX) for place, _ in enumerate(result.shape)]
    loops = [tirx.Var(f"i{place}", INDEX) for place, _ in enumerate(result.shape)]
    stored = value(axes)
    bounds = [Range(tirx.IntImm(INDEX, 0), size) for size in result.shape]
    iters = [tirx.IterVar(each, axis, tirx.IterVar.DataPar) for each, axis in zip(bounds, axes, strict=True)]
    reads = [region_of(load.source, load.indices) for load in all_loads(stored)]
    store = tirx.BufferStore(result, stored, axes)
    block = SBlockRealize(loops, True, SBlock(iters, reads, [region_of(result, axes)], name, store))
    return nest(loops, list(result.shape), block)


def nest(loops: Sequence[Any], sizes: Sequence[Any], body: Any) -> Any:
    """Return loops of these variables and sizes around a statement."""
    for loop, size in reversed(list(zip(loops, sizes, strict=True))):
        extent = tirx.IntImm(INDEX, size) if isinstance(size, int) else size
        body = tirx.For(loop, tirx.IntImm(INDEX, 0), extent, tirx.ForKind.SERIAL, body)
    return body


def region_of(buffer: Any, indices: Sequence[Any]) -> Any:
    """Return the region of one element."""
    return tirx.BufferRegion(buffer, [Range.from_min_extent(index, 1) for index in indices])


def leaf_blocks(statement: Any) -> list[Any]:
    """Return the blocks without blocks inside."""
    return [each for each in _blocks(statement) if not _blocks(each.block.body)]


def _blocks(statement: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(statement, (SBlockRealize, found.append))
    return found


def all_loads(expression: Any) -> list[Any]:
    """Return the reads in an expression or statement."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, found.append))
    return found


def loads_of(body: Any, buffer: Any) -> list[Any]:
    """Return the reads of one buffer."""
    return [each for each in all_loads(body) if each.source.same_as(buffer)]
