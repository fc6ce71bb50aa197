"""Runs elementwise functions on bit patterns of all float32 after each pass; prints one JSON line per pass.

A script for an interpreter with TVM's Relax: ``test_bit_patterns.py`` runs it with ``NAME=module:factory`` arguments.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from math import erf
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment import legalization
from passsearch.standalone.relax.deployment.lowering import lower, target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))

STEP = 131071
"""A prime, so that the patterns have every exponent and many mantissas."""

PATTERNS = np.concatenate(
    [
        np.arange(0, 2**32, STEP, dtype="uint64").astype("uint32").view("float32"),
        np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 88.5, 100, -90, -104, 1e-45, 3.4e38], "float32"),
    ]
)


def _sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "abs": (op.abs, np.abs),
    "acos": (op.acos, np.arccos),
    "asin": (op.asin, np.arcsin),
    "atan": (op.atan, np.arctan),
    "ceil": (op.ceil, np.ceil),
    "cos": (op.cos, np.cos),
    "cosh": (op.cosh, np.cosh),
    "erf": (op.erf, np.vectorize(erf)),
    "exp": (op.exp, np.exp),
    "floor": (op.floor, np.floor),
    "log": (op.log, np.log),
    "negative": (op.negative, np.negative),
    "relu": (op.nn.relu, lambda x: np.where(x < 0, 0, x)),
    "rsqrt": (op.rsqrt, lambda x: 1 / np.sqrt(x)),
    "sigmoid": (op.sigmoid, _sigmoid),
    "sin": (op.sin, np.sin),
    "sinh": (op.sinh, np.sinh),
    "sqrt": (op.sqrt, np.sqrt),
    "square": (op.square, np.square),
    "tanh": (op.tanh, np.tanh),
    "trunc": (op.trunc, np.trunc),
}
"""Operator and exact function, by name."""

NEAR = 2e-6
"""Share of a value by which rounding may move it; of a function's largest value, 1, where it passes through zero."""


def network(size: int) -> Any:
    builder = relax.BlockBuilder()
    data = relax.Var("x", relax.TensorType((size,), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            results = [builder.emit(operator(data)) for operator, _ in FUNCTIONS.values()]
            whole = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(whole)
    return builder.get()


def applied(step: Any, module: Any) -> Any:
    """Return a module after a pass; as it is where the pass is for another form of it."""
    try:
        return step(module.clone())
    except (tvm.TVMError, ValueError, TypeError, RuntimeError):
        return module


def lowered(step: Any) -> Any:
    with TARGET, tvm.transform.PassContext(opt_level=0):
        loops = transform.LegalizeOps()(applied(step, network(len(PATTERNS))))
        return ScheduleCPU()(applied(step, loops))


def run(module: Any) -> Sequence[Any]:
    with TARGET, tvm.transform.PassContext(opt_level=0):
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    results = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(PATTERNS))
    return [each.numpy() for each in results]


def wrong(result: Any, exact: Callable[[Any], Any]) -> list[list[float]]:
    """Return argument, result and truth where a function is wrong."""
    with np.errstate(all="ignore"):
        truth = exact(PATTERNS.astype("float64"))
        rounded = truth.astype("float32")
        tiny = np.finfo("float32").tiny
        gap = np.abs(result.astype("float64") - truth)
        is_near = gap <= NEAR * np.maximum(np.abs(truth), tiny / NEAR)
        # Where the function crosses zero, as the sine does, its argument decides what can be told.
        is_near |= (np.abs(truth) <= 1) & (gap <= 1e-7) & (np.abs(PATTERNS) > 1e-3)
        is_same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
        # Half a unit from the largest number, either neighbour is right.
        is_largest = np.isinf(result) & (np.abs(truth) > 3.4e38) & (np.sign(result) == np.sign(truth))
    places = np.flatnonzero(~(is_near | is_same | is_largest))
    return [[float(PATTERNS[place]), float(result[place]), float(truth[place])] for place in places]


def changed(result: Any, before: Any) -> list[list[float]]:
    """Return argument, result and earlier result where these differ."""
    is_same = (result == before) | (np.isnan(result) & np.isnan(before))
    places = np.flatnonzero(~is_same)
    return [[float(PATTERNS[place]), float(result[place]), float(before[place])] for place in places]


def case(name: str, factory: str, plain: Any, before: Sequence[Any]) -> dict[str, Any]:
    module, _, function = factory.partition(":")
    try:
        step = getattr(import_module(module), function)()
    except TypeError:  # a pass with arguments that have no default
        return {"case": name, "faults": {}, "skipped": True}
    after, faults = lowered(step), {}
    results = before if tvm_ffi.structural_equal(after, plain) else run(after)
    for label, result, earlier in zip(FUNCTIONS, results, before, strict=True):
        # The polynomials replace what the compiler has; no other pass changes a bit.
        found = wrong(result, FUNCTIONS[label][1]) if name == "ExpandMath" else changed(result, earlier)
        if found:
            faults[label] = [f"{len(found)} values", *map(str, found[:: max(len(found) // 4, 1)])]
    return {"case": name, "faults": faults, "skipped": False}


if __name__ == "__main__":
    legalization.replace_functions()
    unchanged = lowered(lambda module: module)
    values = run(unchanged)
    for argument in sys.argv[1:]:
        print(json.dumps(case(*argument.split("=", 1), unchanged, values)), flush=True)
