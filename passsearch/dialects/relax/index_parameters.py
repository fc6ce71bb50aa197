"""Parameters of a kernel whose values say which elements are read: other values than small ones would lead outside."""

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.stmt import SBlockRealize

_SECOND = ("FloorDiv", "FloorMod", "Div", "Mod", "LShift", "RShift")
"""Operations whose second operand has to be in a range."""


def index_parameters(function: tirx.PrimFunc) -> list[bool]:
    """Return for each parameter whether its values may be indices, lengths of loops, divisors or shifts.

    A value goes through other buffers and variables. What is read through a buffer that nothing stores to is unknown,
    and then all parameters may be indices.
    """
    steering, values = _expressions(function)
    loaded: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tvm.ir.TensorLoad, lambda load: loaded.append(load.source)))
    found: list[Any] = []
    for expression in steering:
        found += [each for each in _sources(expression) if not _has(found, each)]
    for source in found:  # which grows
        own = [value for target, value in values if target.same_as(source)]
        if not own and _has(loaded, source) and not _has(function.params, source):
            return [True] * len(function.params)
        for value in own:
            found += [each for each in _sources(value) if not _has(found, each)]
    return [_has(found, each) for each in function.params]


def _expressions(function: tirx.PrimFunc) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Return the expressions that decide on places, and the values of buffers and variables."""
    steering: list[Any] = []
    values: list[tuple[Any, Any]] = []

    def store(statement: Any) -> None:
        steering.extend(statement.indices)
        values.append((statement.buffer, statement.value))

    def second(expression: Any) -> None:
        if type(expression).__name__ in _SECOND:
            steering.append(expression.b)

    walks = (
        (tirx.BufferStore, store),
        (tvm.ir.TensorLoad, lambda load: steering.extend(load.indices)),
        (tirx.For, lambda loop: steering.extend((loop.min, loop.extent))),
        (SBlockRealize, lambda block: steering.extend(block.iter_values)),
        (tirx.Bind, lambda bind: values.append((bind.var, bind.value))),
        (tvm.ir.Expr, second),
    )
    for walk in walks:
        tvm_ffi.structural_walk(function.body, walk)
    return steering, values


def _sources(expression: Any) -> list[Any]:
    """Return the buffers and variables that an expression reads."""
    found: list[Any] = []
    tvm_ffi.structural_walk(expression, (tvm.ir.TensorLoad, lambda load: found.append(load.source)))
    tvm_ffi.structural_walk(expression, (tvm.ir.Var, found.append))
    return found


def _has(several: Sequence[Any], one: Any) -> bool:
    return any(each.same_as(one) for each in several)
