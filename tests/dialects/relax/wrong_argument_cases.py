"""Makes passes with wrong arguments, and prints one JSON line for each with what the pass says.

A script for an interpreter with TVM's Relax: ``test_wrong_arguments.py`` runs it and reads the lines.
"""

from __future__ import annotations

import json
from typing import Any

import tvm
from small_modules import network
from tvm.relax import op, transform

from passsearch.standalone.relax.cpu_schedules import ScheduleCPU
from passsearch.standalone.relax.deployment.lowering import target_options
from passsearch.standalone.relax.graph_rewrites.passes import ApplyDefaultSchedule

WRONG: dict[str, tuple[Any, dict[str, Any]]] = {
    "no rows": (ScheduleCPU, {"rows": 0}),
    "fewer vectors than one": (ScheduleCPU, {"vectors": -1}),
    "prefetch before the first step": (ScheduleCPU, {"prefetch": -8}),
    "no rows of one kernel": (ScheduleCPU, {"kernels": {"tir_exp": {"rows": 0}}}),
    "a rule without a device": (ApplyDefaultSchedule, {"rules": ["Matmul"]}),
}


def message(factory: Any, arguments: dict[str, Any]) -> str:
    module = transform.LegalizeOps()(network((8, 8), op.exp, "float32"))
    try:
        with tvm.target.Target(target_options("llvm")):
            factory(**arguments)(module)
    except ValueError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    for name, (factory, arguments) in WRONG.items():
        print(json.dumps({"case": name, "message": message(factory, arguments)}), flush=True)
