"""Makes the inputs of a check.

Types and ranges are plain JSON here: ``[shape, dtype]`` by input name, and for some inputs a range with ``low``,
``high``, ``source`` and perhaps ``values`` (see ``InputRange`` of ``passsearch.core``). The order of the inputs
matters, because the values are drawn from one generator.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SCALES = {"zeros": 0.0, "small": 1e-2, "large": 1e2, "huge": 1e4}
"""Factors for the normal floats of seed 0 that make edge inputs."""

HALF_HUGE = 1e3
"""The factor of ``huge`` for float16, whose largest number is 65504."""

EDGES = (*SCALES, "denormals", "nan", "inf")
"""Names of edge inputs. ``nan`` has one NaN in every input of floats, ``inf`` both infinities."""

FLOAT_EDGES = tuple(name for name in EDGES if name != "zeros")
"""Edge inputs that differ from those of seed 0 in floats only."""

NOT_FINITE = ("nan", "inf")
"""Edge inputs that have numbers that are not finite."""

OVERFLOWING = ("huge",)
"""Edge inputs on which results may overflow, depending on the order of a sum."""

MASKED = 0.25
"""Share of a mask that hides."""


def make_inputs(types: Any, ranges: Any, case: Any) -> dict[str, Any]:
    """Return the inputs of one case, a seed or one of ``EDGES``, as arrays by name."""
    if not isinstance(case, str):
        return _random_inputs(types, ranges, case)
    return {name: _edge(array, ranges.get(name), case) for name, array in _random_inputs(types, ranges, 0).items()}


def _random_inputs(types: Any, ranges: Any, seed: int) -> dict[str, Any]:
    """Return random inputs: floats are normal, integers lie in their range, and are 0 or 1 without one."""
    rng = np.random.default_rng(seed)
    inputs = {}
    for name, (shape, dtype) in types.items():
        shape = tuple(1 if size is None else size for size in shape)
        values = ranges.get(name)
        if dtype.startswith(("float", "bfloat")):
            inputs[name] = _floats(rng, shape, dtype, is_mask=values is not None, seed=seed)
        elif values is None or (values["low"], values["high"]) == (0, 1):
            inputs[name] = rng.integers(0, 2, shape).astype(dtype)
        else:
            inputs[name] = _integers(rng, shape, values).astype(dtype)
    return inputs


def _floats(rng: Any, shape: Any, dtype: str, *, is_mask: bool, seed: int) -> Any:
    if not is_mask:
        return rng.standard_normal(shape).astype(dtype)
    # Both kinds: a factor of 0 or 1 for odd seeds, for even ones a term of 0 or the lowest number.
    hidden = np.array(rng.random(shape) < MASKED)
    if hidden.ndim:
        hidden[..., 0] = False  # a row that is all hidden has no meaning
    shown, hides = (1.0, 0.0) if seed % 2 else (0.0, float(np.finfo(dtype).min))
    return np.where(hidden, hides, shown).astype(dtype)


def _integers(rng: Any, shape: Any, values: Any) -> Any:
    """Return integers that are spread over a range, both ends included where there are two or more."""
    if values.get("values"):
        return rng.choice(np.array(values["values"]), shape)
    low, span = values["low"], values["high"] - values["low"] + 1
    size = int(np.prod(shape, dtype="int64"))
    if size >= span:  # every value, and then again
        spread = np.arange(size) % span
    else:  # one of each of as many equal parts
        spread = ((np.arange(size) + rng.random(size)) * (span / max(size, 1))).astype("int64")
        if size > 1:
            spread[[0, -1]] = 0, span - 1
    return low + rng.permutation(spread).reshape(shape)


def _edge(array: Any, values: Any, case: str) -> Any:
    """Return an input of seed 0 as an edge case changes it."""
    if array.dtype.kind != "f":
        # Integers are not scaled: 100 times a valid index is none.
        low, high = (values["low"], values["high"]) if values else (0, 1)
        return np.full_like(array, min(max(low, 0), high)) if case == "zeros" else array
    if case == "denormals":
        return (array.astype("float64") * float(np.finfo(array.dtype).tiny) / 4).astype(array.dtype)
    if case in NOT_FINITE:
        return _with_special(array, (np.nan,) if case == "nan" else (np.inf, -np.inf))
    half = array.dtype.itemsize == 2 and case == "huge"
    return array * np.asarray(HALF_HUGE if half else SCALES[case], array.dtype)


def _with_special(array: Any, special: Any) -> Any:
    """Return an array with some numbers in places that lie far from each other."""
    changed = array.copy()
    for number, value in enumerate(special[: array.size], start=1):
        changed.flat[array.size * number // (len(special) + 1)] = value
    return changed
