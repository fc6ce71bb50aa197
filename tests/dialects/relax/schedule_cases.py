"""Runs small networks with and without ``ScheduleCPU`` and prints one JSON line per case.

A script for an interpreter with TVM's Relax: ``test_schedules.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import tvm
from small_modules import network, run
from tvm import relax
from tvm.relax import op, transform

from passsearch.dialects.relax.phases import SCHEDULED
from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.cpu_schedules.sizes import dividing_lanes
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.expand_math import ExpandMath

TARGETS = {name: tvm.target.Target(target_options(f"llvm -mcpu={name}")) for name in ("x86-64", "x86-64-v3")}
RANDOM = np.random.default_rng(0)

Body = Callable[..., Any]


def values(shape: Sequence[int], dtype: str = "float32") -> Any:
    array = RANDOM.standard_normal(shape) if "float" in dtype else RANDOM.integers(-3, 4, shape)
    return np.asarray(array, dtype)


def weight(*shape: int, dtype: str = "float32") -> Any:
    return relax.const(tvm.runtime.tensor(values(shape, dtype)))


def convolution(
    data: int, kernel: int, size: int, *, outputs: int, groups: int = 1, after: str = "", **rest: Any
) -> Any:
    def body(value: Any) -> Any:
        result = op.nn.conv2d(value, weight(outputs, data // groups, kernel, kernel), groups=groups, **rest)
        if after:
            result = op.add(result, weight(1, outputs, 1, 1))
        return op.nn.relu(result) if after == "relu" else result

    return (1, data, size, size), body


def depthwise(shape: tuple[int, ...], kernel: int, **rest: Any) -> Any:
    def body(value: Any) -> Any:
        layouts = {"data_layout": "NHWC", "kernel_layout": "HWOI"}
        filters = weight(kernel, kernel, shape[-1], 1)
        return op.nn.relu(op.nn.conv2d(value, filters, groups=shape[-1], **layouts, **rest))

    return shape, body


def last_channels(shape: tuple[int, ...], kernel: int, *, outputs: int, groups: int = 1, **rest: Any) -> Any:
    def body(value: Any) -> Any:
        filters = weight(kernel, kernel, shape[-1] // groups, outputs)
        return op.nn.conv2d(value, filters, groups=groups, data_layout="NHWC", kernel_layout="HWIO", **rest)

    return shape, body


def product(rows: int, inner: int, columns: int, *, transposed: bool = False, dtype: str = "float32") -> Any:
    def body(value: Any) -> Any:
        if transposed:
            return op.matmul(value, op.permute_dims(weight(columns, inner, dtype=dtype)))
        return op.matmul(value, weight(inner, columns, dtype=dtype))

    return (rows, inner), body


def resized(value: Any, size: tuple[int, int]) -> Any:
    """Return an image whose elements repeat."""
    modes = {"coordinate_transformation_mode": "asymmetric", "rounding_method": "floor"}
    return op.image.resize2d(value, size, layout="NCHW", method="nearest_neighbor", **modes)


CASES: dict[str, tuple[tuple[int, ...], Body]] = {
    "conv": convolution(16, 3, 9, outputs=32, padding=1, after="relu"),
    "conv of odd channels": convolution(3, 3, 7, outputs=5, padding=1, after="bias"),
    "conv of stride": convolution(8, 3, 9, outputs=16, strides=2, padding=1),
    "conv of one pixel": convolution(64, 1, 1, outputs=48, after="relu"),
    "conv of one by one": convolution(24, 1, 7, outputs=32),
    "conv of dilation": convolution(8, 3, 9, outputs=8, dilation=2),
    "conv of large kernel": convolution(3, 7, 17, outputs=16, strides=2, padding=3, after="relu"),
    "depthwise": convolution(16, 3, 8, outputs=16, groups=16, padding=1, after="relu"),
    "depthwise of channels last": depthwise((1, 8, 8, 32), 3, padding=1),
    "depthwise of odd sizes": depthwise((2, 7, 19, 24), 3, padding=1),
    "depthwise of stride": depthwise((1, 15, 38, 16), 3, strides=2, padding=(1, 0, 0, 1)),
    "depthwise of large kernel": depthwise((1, 9, 40, 16), 5, padding=2),
    "depthwise of huge kernel": depthwise((1, 11, 12, 16), 9, padding=4),
    "depthwise of dilation": depthwise((1, 12, 11, 16), 3, dilation=2, padding=2),
    "depthwise without padding": depthwise((1, 9, 9, 16), 3),
    "depthwise of one line": depthwise((1, 3, 40, 32), 3),
    "conv of groups": convolution(16, 3, 8, outputs=32, groups=4, padding=1, after="relu"),
    "conv of groups, channels last": last_channels((2, 9, 7, 32), 3, outputs=64, groups=4, padding=1, strides=2),
    "conv of groups of twelve": last_channels((1, 9, 9, 12), 3, outputs=36, groups=3),
    "groups with computed weights": (
        (1, 7, 7, 24),
        lambda value: op.nn.conv2d(
            value,
            op.multiply(weight(3, 3, 8, 120), op.max(value)),
            groups=3,
            data_layout="NHWC",
            kernel_layout="HWIO",
        ),
    ),
    "groups of two channels": convolution(16, 3, 8, outputs=32, groups=16, padding=1),
    "product": product(12, 64, 48),
    "product of vectors and a half": product(12, 20, 44),
    "product of 43 vectors": product(12, 64, 344),
    "conv of vectors and a half": last_channels((1, 9, 7, 16), 3, outputs=20, padding=1),
    "product with a vector": product(1, 128, 100),
    "product of odd sizes": product(7, 33, 13, transposed=True),
    "batched product": ((4, 6, 32), lambda value: op.matmul(value, op.permute_dims(value, [0, 2, 1]))),
    "product of one row for each batch": ((6, 1, 32), lambda value: op.matmul(value, weight(6, 32, 16))),
    "product of a prime number of rows": product(37, 64, 48),
    "batched product of prime sizes": ((4, 37, 8), lambda value: op.matmul(value, op.reshape(value, (4, 8, 37)))),
    "conv of a prime width": convolution(24, 1, 19, outputs=32, after="relu"),
    "conv of channels last, of a prime width": last_channels((1, 13, 19, 16), 3, outputs=32, padding=1),
    "parts of odd sizes": (
        (1, 5, 51),
        lambda value: op.tanh(op.concat([op.reshape(op.add(value, value), (1, 15, 17)), weight(1, 4, 17)], 1)),
    ),
    "joined channels": (
        (1, 9, 5, 16),
        lambda value: op.nn.relu(
            op.multiply(op.concat([value, op.add(value, value), weight(1, 9, 5, 32)], 3), weight(64))
        ),
    ),
    "joined halves of one": (
        (9, 32),
        lambda value: op.concat(
            [op.strided_slice(value, [1], [0], [16]), op.tanh(op.strided_slice(value, [1], [16], [32]))], 1
        ),
    ),
    "joined parts of joined channels": (
        (2, 3, 24),
        lambda value: op.tanh(op.concat([op.concat([value, op.tanh(value)], 2), weight(2, 3, 8), value], 2)),
    ),
    "padded transpose": (
        (1, 3, 9, 11),
        lambda value: op.nn.relu(op.nn.pad(op.permute_dims(value, [0, 2, 3, 1]), [0, 0, 1, 1, 2, 2, 0, 0])),
    ),
    "pool": ((1, 16, 9, 9), lambda value: op.nn.max_pool2d(value, (3, 3), strides=2, padding=1)),
    "pool of an odd width": ((1, 7, 12, 38), lambda value: op.nn.max_pool2d(value, (2, 2))),
    "pool of stride and an odd width": ((1, 7, 12, 39), lambda value: op.nn.max_pool2d(value, (3, 3), strides=2)),
    "padded pool of steps": ((2, 16, 19, 35), lambda value: op.nn.max_pool2d(value, (3, 3), strides=2, padding=1)),
    "mean pool of steps": ((2, 16, 21, 33), lambda value: op.nn.avg_pool2d(value, (3, 3), strides=2, padding=1)),
    "pool of steps, few images": ((1, 2, 64, 90), lambda value: op.nn.max_pool2d(value, (2, 2), strides=3)),
    "pool of steps, padded by one": ((2, 16, 9, 20), lambda value: op.nn.max_pool2d(value, (2, 2), 2, padding=1)),
    "pool of steps along a line": ((3, 8, 61), lambda value: op.nn.max_pool1d(value, 3, strides=2, padding=1)),
    "pool of steps along three axes": (
        (1, 8, 5, 9, 35),
        lambda value: op.nn.max_pool3d(value, (3, 3, 3), strides=2, padding=1),
    ),
    "two pools of one padding": (
        (2, 16, 20, 36),
        lambda value: op.add(op.nn.max_pool2d(value, (2, 2), 2), op.nn.avg_pool2d(value, (2, 2), 2)),
    ),
    "padded image": ((2, 3, 9, 37), lambda value: op.nn.pad(value, [0, 0, 0, 0, 1, 1, 2, 1])),
    "padded image of short lines": ((2, 3, 9, 5), lambda value: op.nn.pad(value, [0, 0, 0, 0, 1, 1, 2, 1])),
    "padded function": ((1, 4, 9, 57), lambda value: op.exp(op.nn.pad(value, [0, 0, 0, 0, 1, 1, 1, 1]))),
    "joined with a number": (
        (4, 40),
        lambda value: op.exp(op.concat([value, op.full((4, 8), relax.const(0.5), "float32")], 1)),
    ),
    "pairs of a line": ((1600,), lambda value: op.repeat(value, 2, 0)),
    "image of pairs": ((2, 3, 9, 11), lambda value: resized(value, (18, 22))),
    "image of threes": ((1, 3, 9, 12), lambda value: op.tanh(resized(value, (27, 36)))),
    "image of paired lines": ((1, 3, 9, 12), lambda value: resized(value, (18, 12))),
    "sum with an image of pairs": ((1, 3, 8, 8), lambda value: op.add(resized(value, (16, 16)), weight(16, 16))),
    "sums of columns": ((100, 320), lambda value: op.sum(value, 0)),
    "sums of an odd number of columns": ((3, 70, 131), lambda value: op.mean(op.multiply(value, value), 1)),
    "maxima of a prime number": ((9, 1009), lambda value: op.max(value, 1)),
    "pool by counts": (
        (1, 5, 9, 13),
        lambda value: op.nn.avg_pool2d(value, (3, 3), padding=1, count_include_pad=False),
    ),
    "mean": ((1, 32, 7, 7), lambda value: op.mean(value, [2, 3], keepdims=True)),
    "softmax": ((12, 64), lambda value: op.nn.softmax(value, axis=-1)),
    "layer norm": ((1, 9, 64), lambda value: op.nn.layer_norm(value, weight(64), weight(64), axes=-1)),
    "product in float64": product(8, 64, 48, dtype="float64"),
    "product in float16": product(8, 64, 48, dtype="float16"),
    "product in int64": product(8, 64, 48, dtype="int64"),
    "product in int8": product(8, 64, 48, dtype="int8"),
    "elementwise": ((1, 17, 300), lambda value: op.multiply(op.tanh(value), value)),
    "elementwise of odd sizes": ((3, 7, 11, 23), lambda value: op.multiply(op.tanh(value), value)),
    "elementwise of sizes of six": ((3, 2, 1031), lambda value: op.sqrt(op.multiply(value, value))),
    "transpose": ((1, 12, 40, 16), lambda value: op.permute_dims(value, [0, 2, 1, 3])),
    "channels last": ((2, 64, 32, 40), lambda value: op.permute_dims(value, [0, 2, 3, 1])),
    "channels first": ((1, 64, 48, 48), lambda value: op.permute_dims(value, [0, 3, 1, 2])),
    "channels last, of prime sizes": (
        (1, 137, 35, 29),
        lambda value: op.nn.relu(op.add(op.permute_dims(value, [0, 2, 3, 1]), weight(137))),
    ),
    "channels first, of prime sizes": ((3, 41, 37, 29), lambda value: op.permute_dims(value, [0, 3, 1, 2])),
    "channels first in int8": ((1, 119, 67, 67), lambda value: op.permute_dims(value, [0, 3, 1, 2])),
    "channels first in float64": ((1, 139, 53, 11), lambda value: op.permute_dims(value, [0, 3, 1, 2])),
    "sum of two transposes": (
        (1, 56, 56, 56),
        lambda value: op.add(op.permute_dims(value, [0, 3, 1, 2]), op.permute_dims(value, [0, 3, 2, 1])),
    ),
    "transposes along two axes": (
        (1, 56, 56, 56),
        lambda value: op.add(op.permute_dims(value, [0, 3, 1, 2]), op.permute_dims(value, [0, 1, 3, 2])),
    ),
    "sum of all": ((300, 100), lambda value: op.sum(value)),
    "sum of a prime number": ((2, 1009), lambda value: op.sum(value, 1)),
    "sums of images of an odd width": ((3, 5, 19, 29), lambda value: op.sum(op.multiply(value, value), [2, 3])),
    "variance of an image": ((1, 20, 28, 28), lambda value: op.variance(value, [1, 2, 3], keepdims=True)),
    "minima of groups": ((3, 8, 2048), lambda value: op.min(value, 2)),
    "sums of many rows": ((4, 64, 17, 16), lambda value: op.sum(value, [2, 3])),
    "sums of many rows in int32": ((64, 512), lambda value: op.sum(value, 1)),
    "single number": ((12, 64), lambda value: op.subtract(value, op.sum(value))),
    "scattered rows": (
        (19, 13),
        lambda value: op.scatter_nd(value, relax.const(np.array([[3], [17], [5]])), weight(3, 13)),
    ),
    "argmax": ((8, 100), lambda value: op.argmax(value, axis=-1)),
}


LARGE_TILES = {"rows": 24, "vectors": 2, "keep_weights": True}
WITH_LARGE_TILES = ("conv", "conv of odd channels", "product", "batched product", "depthwise of odd sizes")
"""Cases that are scheduled with ``LARGE_TILES`` as well."""


@cache
def sample(name: str) -> tuple[Any, Any, Any, str]:
    """Return a module without schedules, an input, the output, which does not depend on the processor, and the type."""
    shape, body = CASES[name]
    dtype = name.rpartition(" in ")[2] if " in " in name else "float32"
    fusion = (transform.AnnotateTIROpPattern(), transform.FuseOps(fuse_opt_level=2), transform.FuseTIR())
    target, value = TARGETS["x86-64"], values(shape, dtype)
    with target, tvm.transform.PassContext(opt_level=4):
        plain = tvm.transform.Sequential([transform.LegalizeOps(), *fusion])(network(shape, body, dtype))
    return plain, value, run(plain, value, target), dtype


def case(name: str, target: Any, **settings: Any) -> dict[str, Any]:
    plain, value, expected, dtype = sample(name)
    with target, tvm.transform.PassContext(opt_level=4):
        scheduled = ScheduleCPU(**settings)(ExpandMath()(plain.clone()))
    functions = [function for _, function in scheduled.functions_items() if isinstance(function, tvm.tirx.PrimFunc)]
    actual = run(scheduled, value, target)
    limit = 1e-2 if dtype == "float16" else 1e-5
    text = scheduled.script()
    return {
        "scheduled": bool(functions) and all(bool(function.attrs[SCHEDULED]) for function in functions),
        "same": bool(np.allclose(expected, actual, rtol=limit, atol=limit * np.abs(expected).max())),
        "lanes": max(map(int, re.findall(r"T\.vectorized\((?:T\.int64\()?(\d+)", text)), default=0),
        "packed": "_packed(" in text,
        "starts_threads": "T.parallel(" in text,
        "tests": "T.if_then_else(" in text,
        "overlaps": "T.min(" in text and "T.where(" not in text,
    }


if __name__ == "__main__":
    every = int(sys.argv[1])
    sizes = {most: [dividing_lanes(size, most) for size in (48, 728, 40, 364, 24, 12)] for most in (16, 8)}
    print(json.dumps({"case": "lanes", **sizes}), flush=True)
    for processor, target in TARGETS.items():
        for name in list(CASES)[::every]:
            print(json.dumps({"case": f"{name} on {processor}", **case(name, target)}), flush=True)
        for name in WITH_LARGE_TILES[::every]:
            result = case(name, target, **LARGE_TILES)
            print(json.dumps({"case": f"{name} on {processor}, large tiles", **result}), flush=True)
