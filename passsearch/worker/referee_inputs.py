"""Inputs on which a foreign kernel is compared with the present one: usual ones, and those that shortcuts fail on."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from passsearch.dialects.contract import Array
from passsearch.dialects.foreign_kernel import KernelParameter

OWN = "the network's weights"
"""Case whose constants are those of the network."""

SEEDS = ("seed 0", "seed 1", "seed 2")
USUAL = (OWN, *SEEDS)
_MOST_POWER = 20


def _sparse(rng: np.random.Generator, value: float) -> Callable[[Array], Array]:
    """Return a function that puts a value in a few places."""
    return lambda array: np.where(rng.random(array.shape) < 0.02, value, array)


def _make(case: str, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    normal = rng.standard_normal(shape)
    rows = (*shape[:1], *(1 for _ in shape[1:])) if shape and shape[0] > 1 else (*shape[:-1], 1)
    made: Mapping[str, Callable[[], Array]] = {
        "zeros": lambda: np.zeros(shape),
        "negative zeros": lambda: np.full(shape, -0.0),
        "zeros of both signs": lambda: np.where(rng.random(shape) < 0.5, -0.0, 0.0),
        "some negative zeros": lambda: np.where(rng.random(shape) < 0.5, -0.0, normal),
        "ones": lambda: np.ones(shape),
        "negative numbers": lambda: -np.abs(normal) - 1,
        "large numbers": lambda: 1000 * normal,
        "huge numbers": lambda: 2.0**56 * normal,
        "tiny numbers": lambda: 2.0**-100 * normal,
        "denormal numbers": lambda: 2.0**-135 * normal,
        "mixed magnitudes": lambda: normal * 2.0 ** rng.integers(-_MOST_POWER, _MOST_POWER, shape),
        "rows of mixed magnitudes": lambda: normal * 2.0 ** rng.integers(-_MOST_POWER, _MOST_POWER, rows),
        "some NaN": lambda: _sparse(rng, np.nan)(normal),
        "NaN": lambda: np.full(shape, np.nan),
        "some infinities": lambda: _sparse(rng, np.inf)(normal),
        "some negative infinities": lambda: _sparse(rng, -np.inf)(normal),
    }
    return made[case]() if case in made else normal


NASTY = (
    *("zeros", "negative zeros", "zeros of both signs", "some negative zeros", "ones", "negative numbers"),
    *("large numbers", "huge numbers", "tiny numbers", "denormal numbers", "mixed magnitudes"),
    *("rows of mixed magnitudes", "some NaN", "NaN", "some infinities", "some negative infinities"),
)


def make_inputs(
    parameters: Mapping[int, KernelParameter], constants: Mapping[int, Array], case: str
) -> dict[int, Array]:
    """Return the inputs of one case by place of the parameter.

    Integers that may be indices keep their values in constants, and are 0 or 1 otherwise.

    Args:
        parameters: The inputs by place.
        constants: Constants of the network by place.
        case: One of ``USUAL`` or ``NASTY``.
    """
    number = (USUAL + NASTY).index(case)
    inputs = {}
    for place, each in parameters.items():
        rng, kind = np.random.default_rng([number, place]), np.dtype(each.dtype)
        if place in constants and (case == OWN or each.has_narrow_values):
            inputs[place] = np.array(constants[place], kind)
        elif kind.kind == "f":
            with np.errstate(over="ignore"):
                inputs[place] = np.asarray(_make(case, each.shape, rng)).astype(kind)
        elif each.has_narrow_values or kind.kind == "b":
            inputs[place] = rng.integers(0, 2, each.shape).astype(kind)
        else:
            inputs[place] = _INTEGERS[number % len(_INTEGERS)](kind, each.shape, rng)
    return inputs


def _any_integers(kind: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    limits = np.iinfo(kind)
    return rng.integers(limits.min, limits.max, shape, kind, endpoint=True)


def _small_integers(kind: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.integers(max(-8, np.iinfo(kind).min), 8, shape, kind)


def _powers(kind: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return powers of two and their neighbours below."""
    powers = np.left_shift(np.array(1, kind), rng.integers(0, np.iinfo(kind).bits, shape).astype(kind))
    return np.asarray(powers - rng.integers(0, 2, shape).astype(kind))


_INTEGERS = (_any_integers, _small_integers, _powers)
