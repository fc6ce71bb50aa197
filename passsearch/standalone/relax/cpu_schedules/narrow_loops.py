"""Functions that read constant weights in another storage, and widen them in registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlock, SBlockRealize

from .edits import (
    all_loads,
    elementwise,
    leaf_blocks,
    loads_of,
    replace_block,
    statements_around,
    with_product,
    with_statements,
)
from .factors import Factor
from .integer_words import IntegerWords
from .overlap import INDEX
from .storage import HALF_BITS, Storage
from .words import Words


def narrowed(function: Any, factor: Factor, storage: Storage) -> Any:
    """Return a function that reads a factor in another storage, and after it the scales of its columns if it has any.

    Args:
        function: The function.
        factor: A parameter of it.
        storage: The storage, with a group that divides the sum.
    """
    shape = list(factor.buffer.shape)
    has_words = storage.step > 1
    if has_words:
        assert factor.steps is not None
        dimension, axis = factor.steps
        shape[dimension] = tirx.IntImm(INDEX, int(axis.dom.extent) // storage.step * storage.words_of_group)
    buffer = tirx.decl_buffer(shape, storage.dtype, name=factor.buffer.name)
    params = [buffer if each.same_as(factor.buffer) else each for each in function.params]
    if has_words:
        kind = IntegerWords if storage.activations else Words.of
        body = kind(factor, storage, buffer).body(function.body)
    else:
        body = _widen(function.body, factor, storage, buffer)
    if storage.has_column_scales:
        shape = [factor.buffer.shape[each] for each in factor.columns]
        scales = tirx.decl_buffer(shape, "float32", name=f"{factor.buffer.name}_scales")
        params.insert(next(place for place, each in enumerate(params) if each.same_as(buffer)) + 1, scales)
        body = _with_scales(body, factor, scales)
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def is_table(function: Any, place: int) -> bool:
    """Return True if a parameter is only looked up by elementwise blocks, at indices that are data, as an embedding."""
    buffer = function.params[place]
    readers = [each.block for each in leaf_blocks(function.body) if loads_of(each.block.body, buffer)]
    return bool(readers) and all(
        block.init is None
        and isinstance(block.body, tirx.BufferStore)
        and all(any(map(all_loads, load.indices)) for load in loads_of(block.body, buffer))
        for block in readers
    )


def narrowed_table(function: Any, place: int, storage: Storage) -> Any:
    """Return a function that reads a table in another storage, and after it the scales of its rows if it has any."""
    table = function.params[place]
    buffer = tirx.decl_buffer(list(table.shape), storage.dtype, name=table.name)
    new, params = [buffer], list(function.params)
    if storage.has_column_scales:
        new.append(tirx.decl_buffer(list(table.shape)[:-1], "float32", name=f"{table.name}_scales"))
    params[place : place + 1] = new

    def widened(load: Any) -> Any:
        if not load.source.same_as(table):
            return load
        value = _widened(tirx.BufferLoad(buffer, list(load.indices)), storage)
        return value * tirx.BufferLoad(new[1], list(load.indices)[:-1]) if storage.has_column_scales else value

    def changed(realize: Any) -> Any:
        block = realize.block
        regions = [each.region for each in block.reads if each.source.same_as(table)]
        if not regions:
            return realize
        others = [each for each in block.reads if not each.source.same_as(table)]
        own = [tirx.BufferRegion(each, list(regions[0])[: len(each.shape)]) for each in new]
        body = tvm_ffi.structural_map(block.body, (tvm.ir.TensorLoad, widened))
        notes = block.annotations
        new_block = SBlock(block.iter_vars, [*own, *others], block.writes, block.name_hint, body, annotations=notes)
        return SBlockRealize(realize.iter_values, realize.predicate, new_block)

    body = tvm_ffi.structural_map(function.body, (SBlockRealize, changed))
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def _widened(read: Any, storage: Storage) -> Any:
    """Return a number without its scale as float32."""
    if storage.name == "bfloat16":
        return tirx.reinterpret("float32", tirx.Cast("int32", read) << tirx.const(HALF_BITS, "int32"))
    return tirx.Cast("float32", read)


def _widen(body: Any, factor: Factor, storage: Storage, buffer: Any) -> Any:
    """Return a function's body that reads a factor from another buffer of its shape."""
    block = factor.realize.block
    value = _widened(tirx.BufferLoad(buffer, list(factor.load.indices)), storage)
    reads = [
        tirx.BufferRegion(buffer, each.region) if each.source.same_as(factor.buffer) else each for each in block.reads
    ]
    changed = with_product(block, factor.data * value, reads=reads)
    return replace_block(body, SBlockRealize(factor.realize.iter_values, factor.realize.predicate, changed))


def _with_scales(body: Any, factor: Factor, scales: Any) -> Any:
    """Return a function's body that multiplies the sums by the scales of their columns, in a block of its own."""
    block = factor.realize.block
    result, indices = block.body.buffer, list(block.body.indices)
    sums = tirx.decl_buffer(list(result.shape), "float32", name=f"{result.name}_unscaled")
    places = [
        at for each in factor.columns for at, index in enumerate(indices) if index.same_as(factor.load.indices[each])
    ]

    def value(axes: Sequence[Any]) -> Any:
        return tirx.BufferLoad(sums, axes) * tirx.BufferLoad(scales, [axes[place] for place in places])

    statements, place = statements_around(body, block.name_hint)
    summing = tvm_ffi.structural_map(
        statements[place], (tvm.ir.Var, lambda each: sums if each.same_as(result) else each)
    )
    statements[place : place + 1] = [summing, elementwise(f"{block.name_hint}_scale", result, value)]
    return with_statements(body, statements, [sums])
