"""Adds up along axes with and without ``ScheduleCPU``; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_cumulative_sums.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
from small_modules import kernel_calls, network, run
from tvm import relax, tirx

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

CASES: dict[str, tuple[tuple[int, ...], str, dict[str, Any]]] = {
    "first axis": ((23, 131), "float32", {"axis": 0}),
    "many columns": ((5, 1300), "float32", {"axis": 0}),
    "middle axis": ((3, 37, 5, 11), "float32", {"axis": 1}),
    "axis before the last": ((4, 9, 15), "float32", {"axis": -2}),
    "eight columns": ((700, 8), "float32", {"axis": 0}),
    "one step": ((2, 1, 20), "float32", {"axis": 1}),
    "one step, without itself": ((2, 1, 20), "float32", {"axis": 1, "exclusive": True}),
    "without itself": ((2, 50, 70), "float32", {"axis": 1, "exclusive": True}),
    "integers": ((40, 33), "int32", {"axis": 0}),
    "integers of 64 bits": ((40, 33), "int64", {"axis": 0}),
    "wider result": ((40, 33), "int32", {"axis": 0, "dtype": "int64"}),
    "float64": ((40, 33), "float64", {"axis": 0}),
    "float16": ((40, 33), "float16", {"axis": 0}),
    "last axis": ((40, 33), "float32", {"axis": 1}),
    "all axes": ((40, 33), "float32", {"axis": None}),
    "few columns": ((40, 3), "float32", {"axis": 0}),
    "no numbers": ((0, 33), "float32", {"axis": 0}),
    "no numbers of a wider result": ((0, 33), "int32", {"axis": 0, "dtype": "int64"}),
    "no images": ((4, 0, 33), "int32", {"axis": 1, "dtype": "int64"}),
}
"""Shape, type and options."""


def values_of(shape: tuple[int, ...], dtype: str) -> Any:
    values = (10 * RANDOM.standard_normal(shape)).astype(dtype)
    if "float" in dtype and values.size > 20:
        flat = values.reshape(-1)
        flat[5], flat[9], flat[-3] = np.nan, np.inf, -np.inf
    return values


def expected(values: Any, *, axis: int | None, exclusive: bool = False, dtype: str = "") -> Any:
    sums = np.cumsum(values, axis, dtype=dtype or values.dtype)
    if exclusive and axis is not None:
        sums = np.roll(sums, 1, axis)
        np.moveaxis(sums, axis, 0)[0] = 0
    return sums


def scheduled(module: Any) -> Any:
    with TARGET:
        return ScheduleCPU()(module)


def open_sizes() -> dict[str, Any]:
    """Return a row of a sum along an axis whose size is open."""
    steps = tirx.Var("n", "int64")
    module = scheduled(network((steps, 40), lambda data: relax.op.cumsum(data, 0), "float32"))
    values = values_of((30, 40), "float32")
    is_same = np.array_equal(run(module, values, TARGET), expected(values, axis=0), equal_nan=True)
    return {"case": "open size", "kernels": kernel_calls(module), "vectors": False, "same": bool(is_same)}


def main() -> None:
    for name, (shape, dtype, options) in CASES.items():
        module = scheduled(network(shape, lambda data, options=options: relax.op.cumsum(data, **options), dtype))
        values = values_of(shape, dtype)
        with np.errstate(all="ignore"):
            is_same = np.array_equal(
                run(module, values, TARGET), expected(values, **options), equal_nan="float" in dtype
            )
        row = {"case": name, "kernels": kernel_calls(module), "vectors": "T.vectorized(" in module.script()}
        print(json.dumps({**row, "same": bool(is_same)}), flush=True)
    print(json.dumps(open_sizes()))


if __name__ == "__main__":
    main()
