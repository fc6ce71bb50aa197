"""Elementary functions as polynomials, so that a loop over them becomes vector instructions.

LLVM calls the mathematics library once for every element of a vector of ``erf`` or ``exp``. In BERT-base on 128 tokens
the GELU took half the time of the product it is fused with.

``erf`` and ``tanh`` are odd rational functions, fitted by weighted least squares for the smallest largest relative
error (Lawson, *Contributions to the theory of linear least maximum approximation*, 1961). ``exp`` is a polynomial on
[-ln 2 / 2, ln 2 / 2] times a power of two, with the coefficients of Cephes (Moshier, *Methods and Programs for
Mathematical Functions*, 1989). The largest relative errors in float32 are 3.3e-7 for ``erf``, 3.0e-7 for ``tanh``,
1.5e-7 for ``sigmoid`` and 9e-8 for ``exp``, which is 0 below -87.3 and constant above 88.3; ``sigmoid`` is constant
below -87.3, where it is 1.2e-38. Powers of 1 to 4 are products; GPT-2's GELU has a cube.

Imports only TVM, because an exported deployment holds a copy of this file.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

ERF_LIMIT = 3.92
"""Above it, ``erf`` is 1 in float32."""
ERF_NUMERATOR = (1.1283791, 0.19155021, 0.052875437, 0.0038081587, 0.00028468791, 2.0259117e-06)
ERF_DENOMINATOR = (1.0, 0.50308961, 0.11455959, 0.015055084, 0.0011707254, 3.7831847e-05)

TANH_LIMIT = 9.0
"""Above it, ``tanh`` is 1 in float32."""
TANH_NUMERATOR = (1.0, 0.13676143, 0.0038636010, 2.7912090e-05, 3.0355867e-08, -1.2033857e-11)
TANH_DENOMINATOR = (1.0, 0.47009474, 0.027228540, 0.00039302971, 1.2807051e-06)

EXP_LOWEST, EXP_HIGHEST = -87.3, 88.3
"""Range in which ``exp`` is a normal number of float32."""
EXP_POLYNOMIAL = (0.5, 1.6666665459e-1, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
LOG2_E = 1.44269504088896341
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4
"""ln 2 in two parts; the first has few bits, so that multiples of it are exact."""
MOST_FACTORS = 4
"""Largest exponent of a power that is written out as products."""
MANTISSA_BITS, EXPONENT_BIAS = 23, 127
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
    return _float(1.0) / (_float(1.0) + _exp(_clamp(-x, EXP_LOWEST, -EXP_LOWEST)))


def _exp(x: Any) -> Any:
    # Exactly 0 and not the smallest number: a softmax divides it by a sum, and a product with the denormal numbers that
    # this makes took 97 ms instead of 1 in BERT-base, where attention masks out many positions.
    def of_clamped(clamped: Any) -> Any:
        # In this order NaN stays NaN.
        return tirx.Select(clamped <= _float(EXP_LOWEST), _float(0.0), _exp_in_range(clamped))

    return _bind(_clamp(x, EXP_LOWEST, EXP_HIGHEST), of_clamped)


def _exp_in_range(x: Any) -> Any:
    def of_power(power: Any) -> Any:
        rest = x - power * _float(LN2_HIGH) - power * _float(LN2_LOW)
        bits = (power.astype("int32") + EXPONENT_BIAS) << MANTISSA_BITS
        scale = tirx.reinterpret("float32", bits)
        return _bind(rest, lambda r: (_polynomial(r, EXP_POLYNOMIAL) * r * r + r + _float(1.0)) * scale)

    return _bind(tirx.floor(x * _float(LOG2_E) + _float(0.5)), of_power)


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
