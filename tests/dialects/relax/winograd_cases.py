"""Runs small convolutions with and without ``Winograd`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_winograd.py`` runs it and reads the lines.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.winograd import Winograd

TARGETS = {name: tvm.target.Target(target_options(f"llvm -mcpu={name}")) for name in ("x86-64", "x86-64-v3")}
RANDOM = np.random.default_rng(0)
LAYOUT = {"data_layout": "NHWC", "kernel_layout": "HWIO"}

Body = Callable[..., Any]


def weight(*shape: int, dtype: str = "float32") -> Any:
    # A tensor of TVM's, because ``const`` narrows a numpy array of 64 bits to 32.
    return relax.const(tvm.runtime.tensor(RANDOM.standard_normal(shape).astype(dtype)))


def convolution(shape: tuple[int, ...], outputs: int, *, kernel: int = 3, after: str = "", **rest: Any) -> Any:
    dtype = rest.pop("dtype", "float32")

    def body(value: Any) -> Any:
        filters = weight(kernel, kernel, shape[-1] // rest.get("groups", 1), outputs, dtype=dtype)
        result = op.nn.conv2d(value, filters, **{**LAYOUT, **rest})
        if after:
            result = op.add(result, weight(1, 1, 1, outputs, dtype=dtype))
        if after == "residual":
            result = op.add(result, value)
        return result if after in ("", "bias") else op.nn.relu(result)

    return shape, body, dtype


def two_convolutions() -> Any:
    def body(value: Any) -> Any:
        first = op.nn.relu(op.nn.conv2d(value, weight(3, 3, 16, 32), padding=1, **LAYOUT))
        return op.nn.conv2d(first, weight(3, 3, 32, 16), padding=1, **LAYOUT)

    return (1, 8, 8, 16), body, "float32"


FITTING = {
    "plain": convolution((1, 8, 8, 16), 32, padding=1),
    "without padding": convolution((1, 10, 10, 16), 16),
    "asymmetric padding": convolution((1, 9, 7, 8), 16, padding=(0, 2, 1, 0)),
    "no multiple of the tile": convolution((1, 7, 13, 32), 16, padding=1, after="bias"),
    "batch of two": convolution((2, 6, 5, 16), 16, padding=1, after="relu"),
    "odd channels": convolution((1, 8, 6, 5), 13, padding=1, after="relu"),
    "channels of half vectors": convolution((1, 14, 14, 24), 40, padding=1, after="bias"),
    "residual": convolution((1, 9, 9, 16), 16, padding=1, after="residual"),
    "one tile": convolution((1, 2, 2, 16), 16, padding=1),
    "one row": convolution((1, 1, 9, 16), 16, padding=1, after="relu"),
    "two convolutions": two_convolutions(),
}
"""Input, network and type by name."""

UNFITTING = {
    "stride": convolution((1, 9, 9, 16), 16, strides=2, padding=1),
    "dilation": convolution((1, 9, 9, 16), 16, dilation=2, padding=2),
    "groups": convolution((1, 8, 8, 16), 16, groups=2, padding=1),
    "one input channel": convolution((1, 8, 8, 1), 16, padding=1),
    "one output channel": convolution((1, 8, 8, 16), 1, padding=1),
    "kernel of one": convolution((1, 8, 8, 16), 16, kernel=1),
    "kernel of five": convolution((1, 8, 8, 16), 16, kernel=5, padding=2),
    "float64": convolution((1, 8, 8, 16), 16, padding=1, dtype="float64"),
    "channels first": ((1, 16, 8, 8), lambda value: op.nn.conv2d(value, weight(16, 16, 3, 3), padding=1), "float32"),
}
WRONG: dict[str, dict[str, Any]] = {
    "size of three": {"size": 3},
    "size of one convolution": {"convolutions": {"0": 6}},
    "place without a convolution": {"convolutions": {"2": 4}},
    "negative place": {"convolutions": {"-1": 4}},
    "no tiles": {"size": 4, "least_tiles": 0},
    "no channels": {"size": 4, "least_channels": 0},
}
"""Arguments that the pass refuses, for the network with two convolutions."""


def loops(module: Any) -> Any:
    fusion = (transform.AnnotateTIROpPattern(), transform.FuseOps(fuse_opt_level=2), transform.FuseTIR())
    return tvm.transform.Sequential((transform.LegalizeOps(), *fusion))(module)


@cache
def sample(name: str) -> tuple[Any, Any, Any]:
    """Return a network, an input, and the output, which does not depend on the processor."""
    shape, body, dtype = FITTING[name]
    plain, target = network(shape, body, dtype), TARGETS["x86-64"]
    value = RANDOM.standard_normal(shape).astype(dtype)
    with target, tvm.transform.PassContext(opt_level=4):
        direct = loops(plain)
    return plain, value, run(direct, value, target)


def fitting_case(name: str, size: int, target: Any) -> dict[str, Any]:
    plain, value, expected = sample(name)
    with target, tvm.transform.PassContext(opt_level=4):
        converted = Winograd(size=size)(plain)
        scheduled = ScheduleCPU()(loops(converted))
    functions = [function for _, function in scheduled.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    actual = run(scheduled, value, target)
    return {
        "direct": "nn.conv2d" in converted.script(),
        "scheduled": all(bool(function.attrs[SCHEDULED]) for function in functions),
        "kernels": len(functions),
        "deviation": float(np.abs(actual - expected).max() / np.abs(expected).max()),
    }


def unfitting_case(name: str) -> dict[str, Any]:
    plain = network(*UNFITTING[name])
    return {"unchanged": bool(tvm_ffi.structural_equal(plain, Winograd(size=4)(plain)))}


def single_case() -> dict[str, Any]:
    """Convert only the second of two convolutions."""
    script = Winograd({"1": 4})(network(*two_convolutions())).script()
    return {"direct": script.count("nn.conv2d("), "products": script.count("R.matmul(")}


def few_tiles_case() -> dict[str, Any]:
    """Return the number of places in a tile by the height and width of maps, 0 for a direct convolution."""
    places = {}
    for extent in (16, 14, 7, 5, 4):
        plain = network(*convolution((1, extent, extent, 8), 8, padding=1))
        script = Winograd(size=4, least_tiles=8)(plain).script()
        weights = re.search(r"Tensor\(\((\d+), \d+, 8\)", script)
        places[str(extent)] = int(weights[1]) if weights else 0
    return places


def little_saved_case() -> dict[str, Any]:
    """Return the number of places in a tile, by channels and least number of multiplications; 0 for no tiles.

    Tiles of 4 save 6.75 multiplications for each of 256 outputs and pair of channels, tiles of 2 save 5.
    """
    places = {}
    for inputs, outputs, saved in ((8, 8, 0), (4, 8, 0), (8, 4, 0), (8, 8, 110592), (8, 8, 110593)):
        plain = network(*convolution((1, 16, 16, inputs), outputs, padding=1))
        script = Winograd(size=4, least_channels=8, least_saved=saved)(plain).script()
        weights = re.search(r"Tensor\(\((\d+), \d+, 8\)", script)
        places[f"{inputs} {outputs} {saved}"] = int(weights[1]) if weights else 0
    return places


def wrong_case(name: str) -> dict[str, Any]:
    module = network(*two_convolutions())
    try:
        Winograd(**WRONG[name])(module)
    except ValueError as error:
        return {"error": str(error)}
    return {"error": ""}


def show(case: str, kind: str, result: dict[str, Any]) -> None:
    print(json.dumps({"case": case, "kind": kind, **result}), flush=True)


if __name__ == "__main__":
    for processor, target in TARGETS.items():
        for name, size in list(itertools.product(FITTING, (2, 4)))[:: int(sys.argv[1])]:
            show(f"{name}, tiles of {size} on {processor}", "fitting", fitting_case(name, size, target))
    for name in UNFITTING:
        show(name, "unfitting", unfitting_case(name))
    for name in WRONG:
        show(name, "wrong", wrong_case(name))
    show("second of two", "single", single_case())
    show("few tiles", "few", few_tiles_case())
    show("little saved", "saved", little_saved_case())
