"""Runs networks that TVM's loops get wrong, by TVM's pipeline and by sequences; prints one JSON line for each of both.

A script for an interpreter with TVM's Relax: ``test_legalization.py`` runs it with a file of sequences and reads the
lines.
"""

from __future__ import annotations

import json
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

RANDOM = np.random.default_rng(0)
CHANNELS = 8
ROWS = np.float32([[-np.inf] * 8, [np.inf] * 8, [np.nan, *range(7)], [*range(7), np.nan], [0, np.nan, *range(6)]])
IMAGE = RANDOM.standard_normal((2, CHANNELS, 5, 5))
KERNEL = RANDOM.standard_normal((CHANNELS, CHANNELS, 1, 1)) / 3
SCALE, SHIFT, MEAN, VARIANCE = (RANDOM.random(CHANNELS) + 0.5 for _ in range(4))
WIDE = RANDOM.standard_normal((3, 7))
LIMITS = {"float16": 2e-2, "float32": 1e-6, "float64": 1e-12}


def constant(value: Any, dtype: str) -> Any:
    return relax.const(np.asarray(value, dtype), dtype)


def batch_norm(data: Any) -> Any:
    parameters = [constant(value, "float16") for value in (SCALE, SHIFT, MEAN, VARIANCE)]
    emit = relax.BlockBuilder.current().emit
    return emit(relax.TupleGetItem(emit(op.nn.batch_norm(data, *parameters, axis=1, training=False)), 0))


def convolution(data: Any) -> Any:
    return relax.BlockBuilder.current().emit(op.nn.conv2d(data, constant(KERNEL, "float16")))


def normalised(data: Any) -> Any:
    mean, variance, scale, shift = (each.reshape(-1, 1, 1) for each in (MEAN, VARIANCE, SCALE, SHIFT))
    return (data - mean) / np.sqrt(variance + 1e-5) * scale + shift


def convolved(data: Any) -> Any:
    return np.einsum("bchw,oc->bohw", data, KERNEL[:, :, 0, 0])


def layer_norm(data: Any) -> Any:
    return op.nn.layer_norm(data, constant(np.ones(7), "float64"), constant(np.zeros(7), "float64"), axes=[-1])


GAP = WIDE - WIDE.mean(-1, keepdims=True)
CASES: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "batch norm": (batch_norm, IMAGE.astype("float16"), normalised(IMAGE)),
    "batch norm, convolution": (
        lambda x: convolution(batch_norm(x)), IMAGE.astype("float16"), convolved(normalised(IMAGE)),
    ),
    "convolution, batch norm": (
        lambda x: batch_norm(convolution(x)), IMAGE.astype("float16"), normalised(convolved(IMAGE)),
    ),
    "layer norm": (layer_norm, WIDE, GAP / np.sqrt((GAP**2).mean(-1, keepdims=True) + 1e-5)),
    "largest": (lambda x: op.max(x, axis=[1]), ROWS[:2], ROWS[:2].max(1)),
    "smallest": (lambda x: op.min(x, axis=[1]), ROWS[:2], ROWS[:2].min(1)),
    "largest of a pool": (
        lambda x: op.nn.max_pool2d(x, [3, 3], padding=[1, 1, 1, 1]),
        np.full((1, 4, 4, 4), -np.inf, "float32"), np.full((1, 4, 4, 4), -np.inf),
    ),
    "cumulative sum": (lambda x: op.cumsum(x, 1), WIDE.astype("float32"), WIDE.astype("float32").cumsum(1)),
    "softmax": (lambda x: op.nn.softmax(x, axis=-1), ROWS, np.full(ROWS.shape, np.nan)),
}  # fmt: skip
"""Network, input, and result in float64, by name."""


def main() -> None:
    sequences, bridge = json.loads(Path(sys.argv[1]).read_text()), RelaxBridge("llvm -mcpu=x86-64-v3")
    for name, (body, values, expected) in CASES.items():
        for sequence, steps in list(sequences.items())[:: int(sys.argv[2])]:
            actual = run(bridge, network(values.shape, body, str(values.dtype)), values, steps)
            limit = LIMITS[str(values.dtype)]
            is_right = np.allclose(actual.astype(float), expected, rtol=limit, atol=limit, equal_nan=True)
            is_right &= actual.dtype == values.dtype
            print(json.dumps({"case": name, "sequence": sequence, "is_right": bool(is_right)}), flush=True)


def run(bridge: RelaxBridge, module: Any, values: Any, steps: list[dict[str, Any]]) -> Any:
    for step in steps:
        if not step["phases"] or bridge.phase(module) in step["phases"]:
            module = bridge.apply(module, PassSpec.of(step["name"], **step["arguments"]), factory=step["factory"])
    with tempfile.TemporaryDirectory() as folder:
        options = BuildOptions() if steps else BuildOptions(opt_level=3)
        artifact = bridge.build(module, options, Path(folder) / "built")
        return np.asarray(next(iter(bridge.open(artifact, "cpu").run({"x": values}))))


if __name__ == "__main__":
    main()
