"""Selects the largest and smallest numbers of rows with and without ``ScheduleCPU``; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_top_k.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
from small_modules import kernel_calls
from tvm import relax

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import lower, target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

CASES: dict[str, tuple[tuple[int, ...], int, dict[str, Any]]] = {
    "largest of long rows": ((3, 32_000), 5, {}),
    "smallest": ((3, 257), 16, {"largest": False}),
    "one of a vector": ((1000,), 1, {}),
    "three axes": ((2, 3, 333), 7, {}),
    "a row of whole lines": ((2, 4096), 64, {}),
    "values alone": ((2, 1000), 3, {"ret_type": "values"}),
    "places alone": ((2, 1000), 3, {"ret_type": "indices", "dtype": "int32"}),
    "short rows": ((2, 100), 3, {}),
    "many numbers": ((2, 400), 100, {}),
    "first axis": ((400, 2), 3, {"axis": 0}),
    "float64": ((2, 1000), 3, {}),
}
"""Shape, number and options."""


def values_of(kind: str, shape: tuple[int, ...], dtype: str, *, largest: bool) -> Any:
    values = RANDOM.standard_normal(shape).astype(dtype)
    if kind == "zeros of both signs":
        values[...] = -1 if largest else 1
        values.reshape(-1)[3::7], values.reshape(-1)[5::7] = -0.0, 0.0
    if kind == "equal numbers":
        return np.round(values)
    if kind == "special numbers":
        flat = values.reshape(-1)
        for place, number in enumerate((np.nan, np.inf, -np.inf, -0.0, 0.0)):
            flat[place :: 7 + place] = number
    return values


def expected(values: Any, count: int, *, axis: int, largest: bool) -> tuple[Any, Any]:
    """Return values and places: NaN is the largest number, and of equal numbers the first comes first."""
    rank = np.where(np.isnan(values), np.inf, values) + 0.0
    is_nan = np.isnan(values)
    order = (np.where(largest, -rank, rank), np.where(largest, ~is_nan, is_nan))
    places = np.take(np.lexsort(order, axis=axis), np.arange(count), axis=axis)
    return np.take_along_axis(values, places, axis), places


def run(module: Any, values: Any) -> list[Any]:
    with TARGET:
        library = relax.build(lower(module, level=0, target=TARGET), TARGET, relax_pipeline=None)
    result = relax.VirtualMachine(library, tvm.cpu())["main"](tvm.runtime.tensor(values))
    return [result.numpy()] if isinstance(result, tvm.runtime.Tensor) else [each.numpy() for each in result]


def main() -> None:
    for name, (shape, count, options) in CASES.items():
        options = {"axis": -1, "largest": True, "ret_type": "both", "dtype": "int64", **options}
        dtype = "float64" if name == "float64" else "float32"
        builder, data = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, dtype))
        with builder.function("main", [data]):
            with builder.dataflow():
                result = builder.emit_output(builder.emit(relax.op.topk(data, k=count, **options)))
            builder.emit_func_output(result)
        with TARGET:
            scheduled = ScheduleCPU()(builder.get())
        row = {"case": name, "kernels": kernel_calls(scheduled), "wrong": []}
        for kind in ("numbers", "equal numbers", "special numbers", "zeros of both signs"):
            values = values_of(kind, shape, dtype, largest=options["largest"])
            pair = expected(values, count, axis=options["axis"], largest=options["largest"])
            wanted = {"both": pair, "values": pair[:1], "indices": pair[1:]}[options["ret_type"]]
            if not row["kernels"] and kind != "numbers":
                continue  # TVM sorts equal numbers and NaN in an order of its own
            own = run(scheduled, values)
            if not all(np.array_equal(*each, equal_nan=True) for each in zip(own, wanted, strict=True)):
                row["wrong"].append(kind)
        print(json.dumps(row))


if __name__ == "__main__":
    main()
