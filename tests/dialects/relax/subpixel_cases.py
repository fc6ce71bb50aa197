"""Runs transposed convolutions with and without ``SubpixelConvolution`` and prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_subpixel.py`` runs it and reads the lines.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.standalone.relax.graph_rewrites.subpixel import SubpixelConvolution

TARGET = tvm.target.Target("llvm")
RANDOM = np.random.default_rng(0)
PLAIN, ONE = op.nn.conv2d_transpose, op.nn.conv1d_transpose
LEFT = {
    "groups": ((1, 4, 5, 5), (4, 2, 4, 4), PLAIN, {"strides": 2, "groups": 2}),
    "dilation": ((1, 4, 5, 5), (4, 3, 2, 2), PLAIN, {"strides": 2, "dilation": 2}),
    "kernel of one": ((1, 4, 5, 5), (4, 3, 1, 1), PLAIN, {"strides": 2}),
    "padding beyond the kernel": ((1, 4, 9, 9), (4, 3, 2, 2), PLAIN, {"strides": 2, "padding": 4}),
}
"""Those that stay as they are."""


def sizes() -> Iterator[tuple[str, Any]]:
    """Yield data, weights, operator and its arguments in all combinations that its shape rules allow."""
    for kernel, stride, padding, rest in itertools.product((2, 3, 4, 5), (2, 3), (0, 1, 2, 3), (0, 1, 2)):
        if rest < stride and 4 * stride + kernel - 2 * padding + rest > 0 and padding < kernel:
            arguments = {"strides": stride, "padding": padding, "output_padding": rest}
            yield f"kernel {kernel}, {arguments}", ((1, 3, 5), (3, 2, kernel), ONE, arguments)
    uneven = {"strides": (2, 3), "padding": (1, 0, 0, 2), "output_padding": (1, 0)}
    yield "uneven", ((2, 3, 5, 4), (3, 2, 4, 5), PLAIN, uneven)
    yield "one stride", ((1, 3, 5, 4), (3, 2, 3, 3), PLAIN, {"strides": (1, 2), "padding": 1})
    yield "stride 1", ((1, 4, 5, 5), (4, 3, 3, 3), PLAIN, {"padding": 1})
    yield "stride 1 on one pixel", ((1, 4, 1, 1), (4, 3, 4, 4), PLAIN, {})
    yield "no slice", ((1, 3, 5, 4), (3, 2, 2, 2), PLAIN, {"strides": 2})
    yield "float64", ((1, 3, 5, 4), (3, 2, 3, 3), PLAIN, {"strides": 2})
    yield "int32", ((1, 3, 5, 4), (3, 2, 3, 3), PLAIN, {"strides": 2})


def case(
    data: tuple[int, ...], weights: tuple[int, ...], operator: Any, arguments: Any, *, dtype: str
) -> dict[str, Any]:
    constant = relax.const((9 * RANDOM.standard_normal(weights)).astype(dtype), dtype)
    module = network(data, lambda value: operator(value, constant, **arguments), dtype)
    rewritten = SubpixelConvolution()(module)
    value = (9 * RANDOM.standard_normal(data)).astype(dtype)
    expected, result = (run(transform.LegalizeOps()(each), value, TARGET) for each in (module, rewritten))
    return {
        "changed": not tvm_ffi.structural_equal(module, rewritten),
        "same_shape": result.shape == expected.shape,
        "error": float(np.max(np.abs(result - expected)) / np.max(np.abs(expected))),
    }


def unknown_sizes() -> dict[str, Any]:
    """Return whether a module whose data have no known sizes stays as it is."""
    builder, data = relax.BlockBuilder(), relax.Var("x", relax.TensorType(None, "float32", ndim=4))
    constant = relax.const(RANDOM.standard_normal((3, 2, 3, 3)).astype("float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(PLAIN(data, constant, strides=2))
        builder.emit_func_output(result)
    module = builder.get()
    changed = not tvm_ffi.structural_equal(module, SubpixelConvolution()(module))
    return {"changed": changed, "same_shape": True, "error": 0.0}


if __name__ == "__main__":
    for kind, name, values in [
        *(("left", *each) for each in LEFT.items()),
        *(("rewritten", *each) for each in list(sizes())[:: int(sys.argv[1])]),
    ]:
        dtype = name if name in ("float64", "int32") else "float32"
        print(json.dumps({"case": name, "kind": kind, **case(*values, dtype=dtype)}), flush=True)
    print(json.dumps({"case": "unknown sizes", "kind": "left", **unknown_sizes()}), flush=True)
