"""Extremes begin with an infinity, and TVM splits only reductions that begin with the lowest or highest finite number.

So functions are scheduled with finite limits, and these become infinite again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import tirx


def with_finite_limits(function: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a function without infinities, and what puts them back into a function.

    A function that has finite limits already stays as it is.
    """
    numbers: list[Any] = []
    tvm_ffi.structural_walk(function.body, (tirx.FloatImm, numbers.append))
    has_infinity = any(math.isinf(number.value) for number in numbers)
    if not has_infinity or any(abs(number.value) == _limit(number) for number in numbers):
        return function, lambda scheduled: scheduled
    return _mapped(function, _finite), lambda scheduled: _mapped(scheduled, _infinite)


def _mapped(function: Any, change: Callable[[Any], Any]) -> Any:
    return function.with_body(tvm_ffi.structural_map(function.body, (tirx.FloatImm, change)))


def _limit(number: Any) -> float:
    return float(tirx.max_value(str(number.ty)).value)


def _finite(number: Any) -> Any:
    if not math.isinf(number.value):
        return number
    return tirx.const(math.copysign(_limit(number), number.value), str(number.ty))


def _infinite(number: Any) -> Any:
    if abs(number.value) != _limit(number):
        return number
    return tirx.const(math.copysign(math.inf, number.value), str(number.ty))
