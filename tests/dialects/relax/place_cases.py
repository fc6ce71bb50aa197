"""Computes places of extremes with and without ``ScheduleCPU``; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_places.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import tvm
from small_modules import network, run
from tvm import relax, tirx
from tvm.relax import transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.legalization import replace_functions
from passsearch.standalone.relax.deployment.lowering import target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

KINDS = ("argmax", "argmin")

CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "columns": ((70, 131), {"axis": 0}),
    "middle axis": ((3, 29, 5, 11), {"axis": 1}),
    "axis that stays": ((3, 29, 40), {"axis": 1, "keepdims": True}),
    "one step": ((1, 40), {"axis": 0}),
    "rows": ((300, 131), {"axis": -1}),
    "rows of whole vectors": ((9, 64), {"axis": 1, "keepdims": True}),
    "one row": ((4097,), {"axis": 0}),
    "short rows": ((40, 20), {"axis": 1}),
    "few columns": ((40, 3), {"axis": 0}),
    "all axes": ((40, 30), {"axis": None}),
    "no rows": ((0, 40), {"axis": 1}),
    "open rows": ((-1, 131), {"axis": 1}),
}
"""Shape, with -1 for an open size, and options."""


def values_of(kind: str, shape: tuple[int, ...]) -> Any:
    values = RANDOM.standard_normal([30 if size < 0 else size for size in shape]).astype("float32")
    if kind == "equal numbers":
        return np.round(values)
    if kind == "infinities":
        values[...] = np.where(values > 0, np.inf, -np.inf)
        values.reshape(-1)[:40] = -np.inf
    if kind == "undefined numbers":
        values.reshape(-1)[3::50], values.reshape(-1)[4::55] = np.nan, np.inf
    return values


def main() -> None:
    replace_functions()
    every = int(sys.argv[1])
    for number, (name, (shape, options)) in enumerate(CASES.items()):
        for kind in KINDS[number % every :: every]:
            sizes = [tirx.Var("n", "int64") if size < 0 else size for size in shape]
            operator = getattr(relax.op, kind)
            module = network(sizes, lambda data, each=operator, named=options: each(data, **named), "float32")
            with TARGET:
                plain = transform.LegalizeOps()(module)
                scheduled = ScheduleCPU()(plain.clone())
            wrong = []
            for numbers in ("numbers", "equal numbers", "infinities", "undefined numbers"):
                values = values_of(numbers, shape)
                own, loops = run(scheduled, values, TARGET), run(plain, values, TARGET)
                right = getattr(np, kind)(values, **options) if values.size else loops
                # numpy's place of NaN is another one; there the loops that TVM defines are right.
                if not np.array_equal(own, loops if numbers == "undefined numbers" else right):
                    wrong.append(numbers)
            row = {"case": f"{kind} of {name}", "wrong": wrong, "own": "_red_temp" not in scheduled.script()}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
