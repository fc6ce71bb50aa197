"""Runs elementwise functions over all of float32 by sequences of passes; prints one JSON line for each of both.

A script for an interpreter with TVM's Relax: ``test_functions.py`` runs it with a file of sequences and a target, and
reads the lines.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from small_modules import network
from tvm import relax
from tvm.relax import op

from passsearch.core import BuildOptions, PassSpec
from passsearch.dialects.relax.bridge import RelaxBridge

SAMPLES, STEPS = 2**17, 64
BOUNDARIES = (87.33, 88.0, 88.38, 88.72283, 88.72284, 88.8, 89.0, 103.97, 103.98, 104.0, 4.04, 9.2, 1.0, 709.8)
"""Where approximations end, where results become denormal or infinite, and what polynomials are clamped to."""

Array = Any


def error_function(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x)


def sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)) / (1 + np.exp(np.minimum(x, 0))), 1 / (1 + np.exp(-np.abs(x))))


def power(exponent: float) -> Callable[[Any], Any]:
    return lambda x: op.power(x, relax.const(exponent, "float32"))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Array], Array]]] = {
    "abs": (op.abs, np.abs),
    "ceil": (op.ceil, np.ceil),
    "clip": (lambda x: op.clip(x, -3.0, 6.0), lambda x: np.clip(x, -3.0, 6.0)),
    "cosh": (op.cosh, np.cosh),
    "erf": (op.erf, error_function),
    "exp": (op.exp, np.exp),
    "floor": (op.floor, np.floor),
    "log": (op.log, np.log),
    "log of exp": (lambda x: op.log(op.exp(x)), lambda x: np.log(np.exp(x).astype("float32").astype(float))),
    "maximum": (lambda x: op.maximum(x, op.negative(x)), lambda x: np.maximum(x, -x)),
    "negative": (op.negative, np.negative),
    "power 2": (power(2.0), lambda x: x**2),
    "power 3": (power(3.0), lambda x: x**3),
    "power 4": (power(4.0), lambda x: x**4),
    "relu": (op.nn.relu, lambda x: np.maximum(x, 0)),
    "rsqrt": (op.rsqrt, lambda x: 1 / np.sqrt(x)),
    "sigmoid": (op.sigmoid, sigmoid),
    "sign": (op.sign, np.sign),
    # In float32, sigmoid is 0 where the exponential is infinite, in PyTorch and numpy too.
    "silu": (lambda x: op.multiply(x, op.sigmoid(x)), lambda x: x * np.where(x < -88.72283, 0, sigmoid(x))),
    "sinh": (op.sinh, np.sinh),
    "sqrt": (op.sqrt, np.sqrt),
    "square": (op.square, np.square),
    "tanh": (op.tanh, np.tanh),
    "trunc": (op.trunc, np.trunc),
}
"""Operator and exact function in float64, by name."""


def arguments() -> Array:
    """Return patterns of bits from all of float32, and every number next to a boundary."""
    bits = np.linspace(0, 2**32 - 1, SAMPLES, dtype=np.uint64).astype(np.uint32)
    special = np.float32(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38]
    )
    ends = np.float32([sign * value for value in BOUNDARIES for sign in (1, -1)])
    near = (ends.view(np.uint32)[:, None] + np.arange(-STEPS, STEPS)).astype(np.uint32)
    # Most patterns are tiny or huge; these are the numbers that networks have.
    usual = np.random.default_rng(0).uniform(-110, 110, SAMPLES).astype("float32")
    return np.concatenate([bits.view(np.float32), special, near.ravel().view(np.float32), usual])


def errors(actual: Array, exact: Array, values: Array) -> dict[str, Any]:
    """Return the largest error of normal results in units of the last place, and where others are wrong."""
    rounded = exact.astype("float32")
    smallest, finite = np.finfo("float32").tiny, np.isfinite(rounded)
    distance = np.abs(actual.astype(float) - np.where(finite, exact, 0.0))
    unit = np.spacing(np.maximum(np.abs(rounded), smallest)).astype(float)
    ulps = np.where(finite & np.isfinite(actual), distance / np.where(finite, unit, 1.0), 0.0)
    tiny = np.abs(exact) < smallest
    # An exact result next to the largest number may round to infinity.
    is_same = np.isnan(actual) == np.isnan(rounded)
    is_same &= (np.isinf(actual) == np.isinf(rounded)) | (np.abs(exact) > 3.4e38) & np.isfinite(exact)
    is_same &= ~np.isinf(rounded) | ~np.isinf(actual) | (actual == rounded)
    place = int(np.argmax(np.where(tiny, 0, ulps)))
    return {
        "ulps": float(ulps[place]),
        "at": float(values[place]),
        "of_tiny": float(np.where(tiny, distance, 0).max() / 2**-149),
        "wrong": [[repr(each[place]) for each in (values, actual, rounded)] for place in np.flatnonzero(~is_same)[:3]],
        "zeros": int((np.signbit(actual) != np.signbit(rounded))[values == 0].sum()),
    }


def main() -> None:
    sequences = json.loads(Path(sys.argv[1]).read_text())
    bridge = RelaxBridge(sys.argv[2])
    values = arguments()
    for sequence, steps in list(sequences.items())[:: int(sys.argv[3])]:
        for (name, (_, function)), actual in zip(FUNCTIONS.items(), run(bridge, values, steps), strict=True):
            with np.errstate(all="ignore"):
                case = {"case": sequence, "function": name, **errors(actual, function(values.astype(float)), values)}
            print(json.dumps(case), flush=True)


def run(bridge: RelaxBridge, values: Array, steps: list[dict[str, Any]]) -> list[Array]:
    """Return the results of all functions, which are the outputs of one network."""
    module = network((len(values),), lambda x: relax.Tuple([each(x) for each, _ in FUNCTIONS.values()]), "float32")
    for step in steps:
        if not step["phases"] or bridge.phase(module) in step["phases"]:
            module = bridge.apply(module, PassSpec.of(step["name"], **step["arguments"]), factory=step["factory"])
    with tempfile.TemporaryDirectory() as folder:
        artifact = bridge.build(module, BuildOptions(), Path(folder) / "built")
        return [np.asarray(each) for each in bridge.open(artifact, "cpu").run({"x": values})]


if __name__ == "__main__":
    main()
