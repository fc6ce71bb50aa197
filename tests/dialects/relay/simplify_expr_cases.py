"""Simplifies small modules with and without ``look_first`` and prints one JSON line per case.

A script for an interpreter with TVM's Relay: ``test_simplify_expr.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm
from tvm import relay

from passsearch.dialects.relay.constants import Constants
from passsearch.standalone.relay.graph_rewrites import simplify_expr

SHAPE = (2, 3, 4, 4)


def patterns() -> Iterator[tuple[str, Any]]:
    """Yield every pattern of the pass, and expressions that resemble one."""
    op = relay
    x, y = variable("x"), variable("y")
    two, three = op.const(2.0), op.const(np.full((3, 1, 1), 3.0, "float32"))
    zero, one = op.const(np.zeros((1, 1), "float32")), op.const(1.0)
    integers = op.var("i", shape=SHAPE, dtype="int8")
    dequantized = op.qnn.op.dequantize(integers, op.const(0.1), op.const(0))
    squares = (op.multiply(x, x), op.multiply(op.const(2.0), op.multiply(x, y)), op.multiply(y, y))
    cases = {
        "zeros_like": op.zeros_like(x), "ones_like": op.ones_like(x), "full_like": op.full_like(x, two),
        "reshape_like": op.reshape_like(x, y), "broadcast_to_like": op.broadcast_to_like(x, y),
        "collapse_sum_like": op.collapse_sum_like(x, y), "cast_like": op.cast_like(integers, x),
        "x + x": op.add(x, x), "x + y": op.add(x, y), "x / sqrt(y)": op.divide(x, op.sqrt(y)),
        "sqrt(y) / x": op.divide(op.sqrt(y), x), "x + 0": op.add(x, zero), "0 + x": op.add(zero, x),
        "x - 0": op.subtract(x, zero), "0 - x": op.subtract(zero, x), "x * 1": op.multiply(x, one),
        "1 * x": op.multiply(one, x), "x / 1": op.divide(x, one), "1 / x": op.divide(one, x),
        "x * 0": op.multiply(x, zero), "x + 1": op.add(x, one),
        "x + zeros": op.add(x, op.zeros(SHAPE, "float32")), "x * ones": op.multiply(x, op.ones(SHAPE, "float32")),
        "x + full": op.add(x, op.full(two, SHAPE, "float32")),
        "reshape of reshape": op.reshape(op.reshape(x, (6, 16)), (2, 48)), "reshape": op.reshape(x, (6, 16)),
        "transposes": op.transpose(op.transpose(x, (0, 2, 3, 1)), (0, 3, 1, 2)),
        "transpose": op.transpose(x, (0, 2, 3, 1)), "redundant transpose": op.transpose(x, (0, 1, 2, 3)),
        "redundant transpose from the end": op.transpose(x, (-4, -3, -2, -1)), "reversed": op.transpose(x),
        "layouts": op.layout_transform(op.layout_transform(x, "NCHW", "NHWC"), "NHWC", "NCHW"),
        "layout": op.layout_transform(x, "NCHW", "NHWC"), "redundant layout": op.layout_transform(x, "NCHW", "NCHW"),
        "blocked": op.layout_transform(op.layout_transform(x, "NCHW", "NCHW3c"), "NCHW3c", "NHWC"),
        "transpose of layout": op.transpose(op.layout_transform(x, "NCHW", "NHWC"), (0, 3, 1, 2)),
        "cast": op.cast(x, "float64"), "redundant cast": op.cast(x, "float32"),
        "casts": op.cast(op.cast(x, "float64"), "float32"), "cast of clip": op.cast(op.clip(x, 0, 6), "uint8"),
        "casts of clip": op.cast(op.cast(op.clip(op.cast(integers, "int32"), 0, 9), "uint8"), "int32"),
        "clip of cast": op.clip(op.cast(integers, "uint8"), 0, 255), "clip": op.clip(x, 0, 6),
        "clip of all": op.clip(integers, -128, 127), "wide clip": op.clip(x, -4e38, 4e38),
        "(x + c) * c": op.multiply(op.add(x, three), two), "c * (c + x)": op.multiply(three, op.add(two, x)),
        "(x * c) + c": op.add(op.multiply(x, three), two), "(x + y) * c": op.multiply(op.add(x, y), two),
        "x * c * c": op.multiply(op.multiply(x, three), two), "c + (c + x)": op.add(two, op.add(three, x)),
        "x + y + c": op.add(op.add(x, y), two), "binomial": op.add(op.add(squares[1], squares[0]), squares[2]),
        "binomial, otherwise": op.add(squares[2], op.add(squares[0], squares[1])),
        "sum of products": op.add(op.add(op.multiply(x, two), y), op.multiply(y, three)),
        "bfloat16 * 1": op.multiply(op.cast(x, "bfloat16"), half(1.0)),
        "bfloat16 + 0": op.add(op.cast(x, "bfloat16"), half(0.0)),
        "argmax": op.argmax(dequantized, axis=1), "argmin of data": op.argmin(x, axis=1),
        "argsort": op.argsort(dequantized, axis=1),
    }  # fmt: skip
    yield from cases.items()
    for name in ("x + x", "x + y", "transposes"):
        body = cases[name]
        inner = relay.Function(relay.analysis.free_vars(body), body)
        yield f"{name}, in a function", relay.Call(inner, [variable(param.name_hint) for param in inner.params])
    yield "x + 1 twice", relay.Tuple([op.add(op.add(x, one), y), op.add(op.add(x, one), y)])


def half(value: float) -> Any:
    """Return a constant of bfloat16, which is the upper half of a float32's bits."""
    data = tvm.nd.empty((), "bfloat16")
    return relay.Constant(data.copyfrom(np.array(np.float32(value).view("uint32") >> 16, "uint16")))


def trees(count: int) -> Iterator[tuple[str, Any]]:
    """Yield random expressions of a few calls."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield f"tree {seed}", tree(rng, int(rng.integers(1, 4)), [variable("x"), variable("y")])


def tree(rng: np.random.Generator, depth: int, leaves: list[Any]) -> Any:
    """Return an expression of ``SHAPE`` whose leaves are inputs and constants, some of them neutral."""
    if depth == 0:
        constants = [relay.const(float(value)) for value in (0, 1, 2)]
        drawn: Any = [*leaves, *leaves, *constants][rng.integers(2 * len(leaves) + len(constants))]
        return relay.broadcast_to(drawn, SHAPE) if rng.random() < 0.2 else drawn
    left, right = (tree(rng, depth - int(rng.integers(1, depth + 1)), leaves) for _ in range(2))
    full = relay.add(left, leaves[0])  # of SHAPE, for those that need all axes
    makers = [
        lambda: relay.add(left, right), lambda: relay.multiply(left, right), lambda: relay.subtract(left, right),
        lambda: relay.divide(left, relay.sqrt(right)), lambda: relay.divide(left, right), lambda: relay.nn.relu(left),
        lambda: relay.reshape(relay.reshape(full, (6, 16)), SHAPE), lambda: relay.clip(left, 0.0, 6.0),
        lambda: relay.transpose(full, (0, 1, 3, 2)), lambda: relay.cast(relay.cast(left, "float64"), "float32"),
        lambda: relay.layout_transform(relay.layout_transform(full, "NCHW", "NHWC"), "NHWC", "NCHW"),
    ]  # fmt: skip
    return makers[rng.integers(len(makers))]()


def variable(name: str) -> Any:
    """Return an input."""
    return relay.var(name, shape=SHAPE, dtype="float32")


def main(count: int) -> None:
    """Simplify every case with both passes, with and without ``look_first``."""
    constants = Constants()
    for name, body in [*patterns(), *trees(count)]:
        module = relay.transform.InferType()(tvm.IRModule.from_expr(body))
        for make in (simplify_expr.SimplifyExpr, simplify_expr.SimplifyExprPostAlterOp):
            with tvm.transform.PassContext(opt_level=4):
                plain, after_look = (relay.transform.InferType()(make(first)(module)) for first in (False, True))
            same = tvm.ir.structural_equal(*(constants.strip(version)[0] for version in (plain, after_look)))
            result = {
                "case": f"{name}, {make.__name__}",
                "equal": bool(same),
                "changed": not tvm.ir.structural_equal(module, plain),
                "run": simplify_expr._might_change(module),
            }
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
