"""Runs elementwise functions of several axes with ``ScheduleCPU``; prints one JSON line for each.

A script for an interpreter with TVM's Relax: ``test_elementwise.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from row_cases import LOWERING
from small_modules import network, run
from tvm import s_tir, tirx
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options

TARGET = tvm.target.Target(target_options("llvm -mcpu=x86-64-v3"))
RANDOM = np.random.default_rng(0)

SHAPES = (
    *((1, 144, 56, 56), (1, 144, 28, 21), (2, 9, 28, 20), (1, 143, 29, 21), (3, 40, 7, 7), (2, 3, 4, 5), (90, 104)),
    *((23, 2, 16, 17), (3, 0, 8)),
)
"""Rows that vectors divide, that they do not, of which only whole images are divided, and none."""


def divisions(module: Any) -> int:
    """Return how many divisions of places a kernel has."""
    (function,) = [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]
    passes = tvm.transform.Sequential([*LOWERING, s_tir.transform.StmtSimplify()])
    found: list[Any] = []
    for kind in (tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(passes(tvm.IRModule({"main": function}))["main"].body, (kind, found.append))
    return len(found)


def main() -> None:
    for shape in SHAPES:
        with TARGET:
            module = ScheduleCPU()(transform.LegalizeOps()(network(shape, op.abs, "float32")))
        values = RANDOM.standard_normal(shape).astype("float32")
        is_same = bool(np.array_equal(run(module, values, TARGET), np.abs(values)))
        print(json.dumps({"case": str(shape), "same": is_same, "divisions": divisions(module)}), flush=True)


if __name__ == "__main__":
    main()
