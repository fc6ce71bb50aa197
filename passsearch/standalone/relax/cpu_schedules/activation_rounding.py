"""Sums of products whose activations are rounded as ``NarrowWeights`` rounds them, by the size of a group at run time.

They compute in float32 what products of integers compute, so that the error of rounded activations is measured without
a build for every layer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.ir import Range
from tvm.s_tir.stmt import SBlock, SBlockRealize

from .attention import is_attention
from .call_copies import numbered_calls
from .constants import constant_arguments, replace_functions, tensor
from .edits import KEPT, insert_before, nest, replace_block, with_product
from .factors import Factor
from .integer_words import LARGEST, LEAST
from .overlap import INDEX


def with_rounded_activations(module: Any) -> tuple[Any, dict[tuple[str, int, int], Any]]:
    """Return the module with activations that are rounded by groups of a size that is an argument.

    Args:
        module: A module whose kernels are not scheduled yet.

    Returns:
        The module, and for every product with constant weights the constant that is the size of a group, 0 for
        activations that stay as they are: by the name of the kernel, the number of its call and the place of the
        weights among its arguments.
    """
    functions, places = {}, dict[str, list[int]]()
    for name, arguments in constant_arguments(module).items():
        function = module[name]
        if is_attention(function):
            continue
        # From the last one, as a further parameter moves those behind it.
        for place in sorted(arguments, reverse=True):
            factor = Factor.find(function, place)
            if isinstance(factor, Factor) and factor.has_contiguous_data:
                function = _rounded(function, factor, place)
                places.setdefault(name, []).insert(0, place)
        if name in places:
            functions[name] = function

    def arguments_of(name: str, place: int, argument: Any) -> list[Any]:
        group = [relax.const(tensor(np.zeros(1, "int32")))] if place in places[name] else []
        return [argument, *group]

    result = replace_functions(module, functions, arguments_of)
    # By the calls of the module: equal functions have one name in the result.
    calls = zip(numbered_calls(module), numbered_calls(result), strict=True)
    return result, {
        (name, number, place): call.args[1].fields[place + before + 1]
        for (name, number, _), (*_, call) in calls
        for before, place in enumerate(places.get(name, ()))
    }


def _rounded(function: Any, factor: Factor, place: int) -> Any:
    """Return a function that rounds the other factor, with a parameter behind the weights for the size of a group."""
    data, block = factor.data.source, factor.realize.block
    group = tirx.decl_buffer([1], "int32", name=f"{factor.buffer.name}_group")
    result = tirx.decl_buffer(list(data.shape), "float32", name=f"{data.name}_rounded")
    load = tirx.BufferLoad(result, list(factor.data.indices))
    reads = [tirx.BufferRegion(result, each.region) if each.source.same_as(data) else each for each in block.reads]
    product = SBlockRealize(
        factor.realize.iter_values, factor.realize.predicate, with_product(block, load * factor.load, reads=reads)
    )
    name = f"{block.name_hint}_rounding_{place}"
    body = insert_before(
        replace_block(function.body, product), block.name_hint, [_rounding(name, data, result, group)], [result]
    )
    params = [*function.params[: place + 1], group, *function.params[place + 1 :]]
    return tirx.PrimFunc(params, body, function.ret_type, function.attrs)


def _rounding(name: str, data: Any, result: Any, group: Any) -> Any:
    """Return the loops that round a row at a time."""
    *sizes, size = data.shape
    sizes = sizes or [tirx.IntImm(INDEX, 1)]
    axes, loops = ([tirx.Var(f"{letter}{at}", INDEX) for at, _ in enumerate(sizes)] for letter in "vi")
    iters = [
        tirx.IterVar(Range(tirx.IntImm(INDEX, 0), each), axis, tirx.IterVar.DataPar)
        for each, axis in zip(sizes, axes, strict=True)
    ]
    row = axes[: len(data.shape) - 1]
    whole = [*(Range.from_min_extent(axis, 1) for axis in row), Range.from_min_extent(tirx.IntImm(INDEX, 0), size)]
    largest = tirx.decl_buffer([1], "float32", name=f"{name}_largest")
    step = tirx.Cast(INDEX, tirx.BufferLoad(group, [0]))
    first, read, within, place = (tirx.Var(each, INDEX) for each in ("group", "read", "within", "place"))
    most, zero = tirx.const(LARGEST, "float32"), tirx.const(0.0, "float32")

    def value(at: Any) -> Any:
        return tirx.BufferLoad(data, [*row, at])

    def store(at: Any, number: Any) -> Any:
        return tirx.BufferStore(result, number, [*row, at])

    held = tirx.BufferLoad(largest, [0])
    integer = tirx.nearbyint(value(first * step + within) * tirx.Select(held < LEAST, zero, most / held))
    rounded = nest(
        [first],
        [tirx.floordiv(size, tirx.max(step, 1))],
        tirx.SeqStmt(
            [
                tirx.BufferStore(largest, zero, [0]),
                nest(
                    [read], [step], tirx.BufferStore(largest, tirx.max(held, tirx.abs(value(first * step + read))), [0])
                ),
                nest([within], [step], store(first * step + within, integer * (held / most))),
            ]
        ),
    )
    body = tirx.IfThenElse(step > 0, rounded, nest([place], [size], store(place, value(place))))
    block = SBlock(
        iters,
        [tirx.BufferRegion(data, whole), tirx.BufferRegion(group, [Range.from_min_extent(tirx.IntImm(INDEX, 0), 1)])],
        [tirx.BufferRegion(result, whole)],
        name,
        body,
        alloc_buffers=[largest],
        annotations={KEPT: True},
    )
    return nest(loops, list(sizes), SBlockRealize(loops, True, block))
