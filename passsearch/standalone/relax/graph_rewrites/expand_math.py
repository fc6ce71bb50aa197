"""Elementary functions as polynomials, so that a loop over them becomes vector instructions.

LLVM calls the mathematics library once for every element of a vector of ``erf`` or ``exp``. In BERT-base on 128 tokens
the GELU took half the time of the product it is fused with.

``erf`` and ``tanh`` are odd rational functions, ``exp`` is a polynomial on [-ln 2, ln 2] times a power of four, all
fitted by weighted least squares for the smallest largest relative error (Lawson, *Contributions to the theory of linear
least maximum approximation*, 1961). The largest relative errors in float32 are 3.3e-7 for ``erf``, 4.0e-7 for ``tanh``,
1.6e-7 for ``exp`` and 2.5e-7 for ``sigmoid``, which is 0 below -88.8, where it would be a denormal number. Infinities,
NaN, signs of zeros and the denormal results of ``exp`` are right. Powers of 1 to 4 are products; GPT-2's GELU has a
cube.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

ERF_LIMIT = 4.04
"""Above it, ``erf`` is 1 in float32. Here the quotient is larger than 1 by more than it is rounded by."""
ERF_NUMERATOR = (1.1283791, 0.19155021, 0.052875437, 0.0038081587, 0.00028468791, 2.0259117e-06)
ERF_DENOMINATOR = (1.0, 0.50308961, 0.11455959, 0.015055084, 0.0011707254, 3.7831847e-05)

TANH_LIMIT = 9.2
"""Above it, ``tanh`` is 1 in float32. Here the quotient is larger than 1 by more than it is rounded by."""
TANH_NUMERATOR = (1.0, 0.13676158, 0.0038635754, 2.7913422e-05, 3.0330881e-08, -1.1881891e-11)
TANH_DENOMINATOR = (1.0, 0.47009474, 0.027228540, 0.00039302971, 1.2807051e-06)

EXP_LOWEST, EXP_HIGHEST = -104.0, 89.0
"""Range outside of which ``exp`` rounds to 0, and to infinity, in float32."""
EXP_POLYNOMIAL = (1.0, 1.0, 0.50000036, 0.16666614, 0.041661236, 0.0083361201, 0.0014105092, 0.00019610838)
LOG4_E = 0.72134752044448170
LN4_HIGH, LN4_LOW = 1.38671875, -4.24388880e-4
"""ln 4 in two parts; the first has few bits, so that multiples of it are exact."""
ROUNDER = 1.5 * 2**23
"""A number of float32 to which numbers are added to be rounded: the last bits of the sum are the whole number."""
MOST_FACTORS = 4
"""Largest exponent of a power that is written out as products."""
MANTISSA_BITS, BITS_OF_ONE = 23, 0x3F800000
"""Layout of float32."""


def ExpandMath() -> Any:  # noqa: N802
    """Return a pass that writes out erf, exp, tanh, sigmoid and whole powers in functions of loops in float32."""

    def expand(module: Any, _context: Any) -> Any:
        for name, function in module.functions_items():
            if isinstance(function, tirx.PrimFunc):
                module.update_func(name, tvm_ffi.structural_map(function, (tvm.ir.Call, _expand_call)))
        return module

    return tvm.transform.module_pass(expand, opt_level=0, name="ExpandMath")


def _expand_call(call: Any) -> Any:
    expansion = EXPANSIONS.get(getattr(call.op, "name", ""))
    expanded = expansion(*call.args) if expansion and str(call.ty) == "float32" else None
    return call if expanded is None else expanded


def _erf(x: Any) -> Any:
    return _bind(_clamp(x, -ERF_LIMIT, ERF_LIMIT), lambda c: _odd_rational(c, ERF_NUMERATOR, ERF_DENOMINATOR))


def _tanh(x: Any) -> Any:
    return _bind(_clamp(x, -TANH_LIMIT, TANH_LIMIT), lambda c: _odd_rational(c, TANH_NUMERATOR, TANH_DENOMINATOR))


def _sigmoid(x: Any) -> Any:
    # Not by ``tanh``, of which small values of ``sigmoid`` are differences.
    return _float(1.0) / (_float(1.0) + _exp(-x))


def _exp(x: Any) -> Any:
    """Return ``exp``: a polynomial on [-ln 2, ln 2] times a power of four, which is the square of a power of two.

    Two factors reach both ends of float32, and denormal numbers are rounded once: 2 to the power of 128 and of -149 are
    no normal numbers.
    """

    def of_sum(clamped: Any, rounded: Any) -> Any:
        power = rounded - _float(ROUNDER)
        rest = _bind(power, lambda p: clamped - p * _float(LN4_HIGH) - p * _float(LN4_LOW))
        bits = (tirx.reinterpret("int32", rounded) << MANTISSA_BITS) + BITS_OF_ONE
        scale = tirx.reinterpret("float32", bits)
        return _bind(scale, lambda s: _bind(rest, lambda r: _polynomial(r, EXP_POLYNOMIAL) * s * s))

    def of_clamped(clamped: Any) -> Any:
        return _bind(clamped * _float(LOG4_E) + _float(ROUNDER), lambda rounded: of_sum(clamped, rounded))

    return _bind(_clamp(x, EXP_LOWEST, EXP_HIGHEST), of_clamped)


def _power(x: Any, exponent: Any) -> Any | None:
    """Return a small whole power as products; ``None`` for other powers."""
    number = float(exponent.value) if isinstance(exponent, tirx.FloatImm) else 0.0
    if number not in range(1, MOST_FACTORS + 1):
        return None
    return _bind(x, lambda base: functools.reduce(operator.mul, [base] * int(number)))


def _odd_rational(x: Any, numerator: Sequence[float], denominator: Sequence[float]) -> Any:
    """Return ``x`` times a quotient of polynomials in its square, between -1 and 1."""

    def of_square(square: Any) -> Any:
        # Rounding may lead beyond 1, where a later root of 1 - tanh(x)^2 would be NaN.
        return _clamp(x * _polynomial(square, numerator) / _polynomial(square, denominator), -1.0, 1.0)

    return _bind(x * x, of_square)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:
    """Return a polynomial by Horner's rule, the coefficient of the lowest power first."""
    *rest, value = map(_float, coefficients)
    for coefficient in reversed(rest):
        value = value * x + coefficient
    return value


def _clamp(x: Any, low: float, high: float) -> Any:
    # TVM compiles ``max(a, b)`` as ``a > b ? a : b``, so that NaN stays NaN only as the second operand.
    return tirx.min(_float(high), tirx.max(_float(low), x))


def _bind(value: Any, body: Callable[[Any], Any]) -> Any:
    """Return an expression that computes ``value`` once, however often ``body`` uses it."""
    variable = tirx.Var("x", "float32")
    return tirx.Let(variable, value, body(variable))


def _float(value: float) -> Any:
    return tirx.const(value, "float32")


EXPANSIONS: dict[str, Callable[..., Any]] = {
    "tirx.erf": _erf,
    "tirx.exp": _exp,
    "tirx.pow": _power,
    "tirx.sigmoid": _sigmoid,
    "tirx.tanh": _tanh,
}
"""The expansions by the name of TVM's operator."""
